//! Modules, kernels and launches.

use super::{hip_functions, present, put, Outcome};
use crate::code::Entry;
use crate::command::{Arguments, Command, Launch};
use crate::device::{MAX_BLOCK_THREADS, MAX_GRID, MAX_SHARED_BYTES};
use crate::module_abi::Dim;
use crate::{config, device, module, stream};
use hip_abi::{hipDeviceptr_t, hipError_t, hipFunction_attribute, hipFunction_t, hipModule_t, hipStream_t};
use hip_abi::{HIP_LAUNCH_PARAM_BUFFER_POINTER, HIP_LAUNCH_PARAM_BUFFER_SIZE, HIP_LAUNCH_PARAM_END};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

hip_functions! {
    fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) {
        present(module)?;
        present(image)?;
        put(module, module::load(device::current()?.ordinal, image)?)
    }

    fn hipModuleUnload(module: hipModule_t) { module::unload(module) }

    fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) {
        present(function)?;
        present(name)?;
        put(function, module::function(module, CStr::from_ptr(name))?)
    }

    fn hipModuleGetGlobal(address: *mut hipDeviceptr_t, bytes: *mut usize, module: hipModule_t, name: *const c_char) {
        present(name)?;
        let (found, size) = module::global(module, CStr::from_ptr(name))?;
        // Either answer may be left out.
        if !address.is_null() {
            put(address, hipDeviceptr_t(found as *mut c_void))?;
        }
        if bytes.is_null() { Ok(()) } else { put(bytes, size) }
    }

    fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t) {
        use hipFunction_attribute as A;
        module::resolve_function(function)?;
        put(value, match attribute {
            A::HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => MAX_BLOCK_THREADS as c_int,
            A::HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => MAX_SHARED_BYTES as c_int,
            // Static shared memory is thread-local storage here and registers are the compiler's: neither limits a launch.
            A::HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
            | A::HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES
            | A::HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
            | A::HIP_FUNC_ATTRIBUTE_NUM_REGS => 0,
            _ => return Err(hipError_t::hipErrorInvalidValue),
        })
    }

    fn hipModuleLaunchKernel(
        function: hipFunction_t,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: hipStream_t,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let function = module::resolve_function(function)?;
        let stream = stream::resolve(stream)?;
        let grid = Dim { x: grid_x, y: grid_y, z: grid_z };
        let block = Dim { x: block_x, y: block_y, z: block_z };
        check_geometry(grid, block, shared_bytes)?;
        if function.module.device != stream.device {
            return Err(hipError_t::hipErrorInvalidHandle);
        }
        let arguments = pack(&function.entry, params, extra)?;
        let ticket = stream.submit(Command::Launch(Launch { function, grid, block, shared_bytes, arguments }))?;
        if let Some(ticket) = ticket.filter(|_| config::options().is_ok_and(|options| options.launch_blocking)) {
            stream.wait_for(ticket);
            return stream.take_failure();
        }
        Ok(())
    }

    fn hipModuleOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: hipFunction_t, shared_bytes: usize, block_limit: c_int) {
        module::resolve_function(function)?;
        present(grid)?;
        present(block)?;
        if shared_bytes > MAX_SHARED_BYTES as usize {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        let largest = MAX_BLOCK_THREADS as c_int;
        put(block, if (1..largest).contains(&block_limit) { block_limit } else { largest })?;
        put(grid, config::options().map_or(1, |options| options.threads) as c_int)
    }

    // A thread runs one block at a time.
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: hipFunction_t, block: c_int, shared_bytes: usize) {
        module::resolve_function(function)?;
        present(blocks)?;
        if block <= 0 {
            return Err(hipError_t::hipErrorInvalidValue);
        }
        put(blocks, c_int::from(block <= MAX_BLOCK_THREADS as c_int && shared_bytes <= MAX_SHARED_BYTES as usize))
    }
}

/// Refuses a geometry beyond the device's limits, with the codes of AMD's runtime.
fn check_geometry(grid: Dim, block: Dim, shared_bytes: u32) -> Outcome {
    let threads = [block.x, block.y, block.z]
        .map(u64::from)
        .iter()
        .try_fold(1u64, |product, extent| product.checked_mul(*extent));
    let too_many_threads = threads.is_none_or(|threads| threads == 0 || threads > u64::from(MAX_BLOCK_THREADS));
    let bad_grid = [grid.x, grid.y, grid.z].iter().zip(MAX_GRID).any(|(extent, limit)| *extent == 0 || *extent > limit);
    if too_many_threads || bad_grid {
        return Err(hipError_t::hipErrorInvalidConfiguration);
    }
    if shared_bytes > MAX_SHARED_BYTES {
        return Err(hipError_t::hipErrorInvalidValue);
    }
    Ok(())
}

/// Copies a launch's arguments, given one by one or packed already.
///
/// # Safety
/// As for `hipModuleLaunchKernel`: `params` has a pointer for each argument, or `extra` is a list that ends.
unsafe fn pack(kernel: &Entry, params: *mut *mut c_void, extra: *mut *mut c_void) -> Outcome<Arguments> {
    let (bytes, count) = (kernel.args_bytes(), kernel.arg_count());
    if count == 0 {
        return Arguments::pack(bytes, |_| Ok(()));
    }
    if !params.is_null() {
        return Arguments::pack(bytes, |start| {
            for index in 0..count {
                // SAFETY: the caller's list has an entry for each argument, and every offset plus size lies within `bytes`.
                unsafe {
                    let argument = *params.add(index);
                    present(argument)?;
                    let (offset, size) = kernel.argument(index);
                    std::ptr::copy_nonoverlapping(argument.cast::<u8>(), start.add(offset), size);
                }
            }
            Ok(())
        });
    }
    // SAFETY: the caller's promise.
    let (packed, given) = unsafe { packed_arguments(extra)? };
    let (last_offset, last_size) = kernel.argument(count - 1);
    let needed = last_offset + last_size;
    if given < needed {
        return Err(hipError_t::hipErrorInvalidValue);
    }
    Arguments::pack(bytes, |start| {
        // SAFETY: the caller's buffer has `given` bytes, ours `bytes`.
        unsafe { std::ptr::copy_nonoverlapping(packed.cast::<u8>(), start, given.min(bytes)) };
        Ok(())
    })
}

/// Reads the `extra` list: keys and values up to an end mark.
///
/// # Safety
/// `extra` is null or such a list.
unsafe fn packed_arguments(extra: *mut *mut c_void) -> Outcome<(*const c_void, usize)> {
    present(extra)?;
    let (mut buffer, mut size) = (std::ptr::null::<c_void>(), std::ptr::null::<usize>());
    for pair in 0.. {
        // SAFETY: the list goes on until its end mark.
        let key = unsafe { *extra.add(2 * pair) };
        if key == HIP_LAUNCH_PARAM_END {
            break;
        }
        // SAFETY: every other key has a value.
        let value = unsafe { *extra.add(2 * pair + 1) };
        match key {
            HIP_LAUNCH_PARAM_BUFFER_POINTER => buffer = value,
            HIP_LAUNCH_PARAM_BUFFER_SIZE => size = value.cast(),
            _ => return Err(hipError_t::hipErrorInvalidValue),
        }
    }
    present(buffer)?;
    present(size)?;
    // SAFETY: not null, and the list says it points to a size.
    Ok((buffer, unsafe { *size }))
}
