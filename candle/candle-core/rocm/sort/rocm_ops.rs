pub fn arg_sort() {}
