pub fn rotary_emb() {}
pub fn rotary_emb_i() {}
pub fn rotary_emb_thd() {}
