//! What the executor relies on beyond the text: operands that the encoding only implies, tied ones, widths, constants.

use vgpu::decode::decode;
use vgpu::inst::{Arg, Dpp, Encoding, Inst, Op, Operand, Sel, Ty, Unused};
use vgpu::target::Arch;

fn read(arch: Arch, words: &[u32]) -> Inst {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let inst = decode(arch, arch.wave_size(), &bytes).expect("an instruction");
    assert_eq!(usize::from(inst.size), bytes.len(), "{}", inst.mnemonic);
    inst
}

fn is(arg: &Arg, operand: Operand, dwords: u8) -> bool {
    arg.operand == operand && arg.dwords == dwords
}

#[test]
fn carries_and_conditions_are_written_out() {
    // v_add_co_ci_u32_e32 v0, vcc_lo, v1, v2, vcc_lo
    let inst = read(Arch::Gfx1100, &[0x4000_0501]);
    assert_eq!((inst.op, inst.encoding), (Op::V_ADD_CO_CI_U32, Encoding::Vop2));
    assert!(is(&inst.sdst, Operand::VccLo, 1) && is(&inst.src[2], Operand::VccLo, 1));
    // v_addc_co_u32_e32 v0, vcc, v1, v2, vcc
    let inst = read(Arch::Gfx90a, &[0x3800_0501]);
    assert_eq!(inst.op, Op::V_ADD_CO_CI_U32);
    assert!(is(&inst.sdst, Operand::VccLo, 2) && is(&inst.src[2], Operand::VccLo, 2));
    // v_cndmask_b32_e32 v0, v1, v2, vcc_lo
    let inst = read(Arch::Gfx1030, &[0x0200_0501]);
    assert!(is(&inst.src[2], Operand::VccLo, 1) && !inst.sdst.is_some());
}

#[test]
fn compares_say_what_they_write() {
    // v_cmp_lt_f32_e32 vcc_lo, v1, v2; v_cmpx_lt_f32_e32 v1, v2
    assert!(is(&read(Arch::Gfx1100, &[0x7c22_0501]).dst, Operand::VccLo, 1));
    assert!(is(&read(Arch::Gfx1100, &[0x7d22_0501]).dst, Operand::ExecLo, 1));
    // gfx9's v_cmpx_lt_f32_e32 vcc, v1, v2 writes both.
    let inst = read(Arch::Gfx90a, &[0x7ca2_0501]);
    assert_eq!(inst.op, Op::V_CMPX_LT_F32);
    assert!(is(&inst.dst, Operand::VccLo, 2));
}

#[test]
fn accumulators_and_constants_have_their_place() {
    // v_fmac_f32_e32 v0, v1, v2
    let inst = read(Arch::Gfx1100, &[0x5600_0501]);
    assert_eq!(inst.op, Op::V_FMAC_F32);
    assert!(is(&inst.src[2], Operand::Vgpr(0), 1));
    // v_fmamk_f32 v0, v1, 0x12345678, v3; v_fmaak_f32 v0, v1, v3, 0x12345678
    let inst = read(Arch::Gfx1100, &[0x5800_0701, 0x1234_5678]);
    assert_eq!((inst.src[1].operand, inst.src[2].operand), (Operand::Literal(0x1234_5678), Operand::Vgpr(3)));
    let inst = read(Arch::Gfx1100, &[0x5a00_0701, 0x1234_5678]);
    assert_eq!((inst.src[1].operand, inst.src[2].operand), (Operand::Vgpr(3), Operand::Literal(0x1234_5678)));
}

#[test]
fn both_halves_of_a_pair_are_there() {
    // v_dual_fmac_f32 v0, v1, v2 :: v_dual_cndmask_b32 v3, v4, v5
    let inst = read(Arch::Gfx1100, &[0xc812_0501, 0x0002_0b04]);
    let second = inst.second.as_ref().expect("a second half");
    assert_eq!((inst.op, second.op), (Op::V_FMAC_F32, Op::V_CNDMASK_B32));
    assert!(is(&inst.src[2], Operand::Vgpr(0), 1));
    assert!(is(&second.dst, Operand::Vgpr(3), 1) && is(&second.src[2], Operand::VccLo, 1));
}

#[test]
fn constants_are_widened_by_type() {
    // v_add_f64 v[0:1], v[2:3], 0x40080000
    let inst = read(Arch::Gfx1100, &[0xd727_0000, 0x0001_ff02, 0x4008_0000]);
    assert_eq!((inst.src[1].ty, inst.src[1].constant()), (Ty::F64, Some(3f64.to_bits())));
    // s_mov_b64 s[0:1], 0xffffffff
    let inst = read(Arch::Gfx1100, &[0xbe80_01ff, 0xffff_ffff]);
    assert_eq!(inst.src[0].constant(), Some(0xffff_ffff));
    // s_cselect_b64 vcc, -1, 0
    let inst = read(Arch::Gfx90a, &[0x85ea_80c1]);
    assert!(is(&inst.dst, Operand::VccLo, 2));
    assert_eq!(inst.src[0].constant(), Some(u64::MAX));
    // v_pk_add_f16 v0, v1, 1.0 has it in the low half; v_add_f16_e32 v0, 1.0, v1 is an f16.
    let inst = read(Arch::Gfx90a, &[0xd38f_4000, 0x1801_e501]);
    assert_eq!((inst.src[1].ty, inst.src[1].constant()), (Ty::V2F16, Some(0x3c00)));
    assert_eq!(read(Arch::Gfx1100, &[0x6400_02f2]).src[0].constant(), Some(0x3c00));
}

#[test]
fn parts_of_registers_are_told() {
    // v_add_u32_sdwa v0, sext(v1), v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_1 src1_sel:DWORD
    let inst = read(Arch::Gfx90a, &[0x6800_04f9, 0x0609_1501]);
    assert_eq!((inst.op, inst.sdwa, inst.unused), (Op::V_ADD_NC_U32, true, Unused::Preserve));
    assert_eq!((inst.dst.sel, inst.src[0].sel, inst.src[0].sext), (Sel::Word1, Sel::Byte1, true));
    // v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1
    let inst = read(Arch::Gfx1100, &[0x7e00_02fa, 0xff09_1101]);
    assert!(matches!(inst.dpp, Some(Dpp::Rule { row_mask: 15, bound_ctrl: true, fi: false, .. })));
}

#[test]
fn memory_operands_have_their_place() {
    // global_atomic_add_u32 v0, v[2:3], v1, off glc
    let inst = read(Arch::Gfx1100, &[0xdcd6_4000, 0x007c_0102]);
    assert_eq!((inst.op, inst.returns, inst.cache), (Op::GLOBAL_ATOMIC_ADD_U32, true, 1));
    assert!(is(&inst.src[0], Operand::Vgpr(2), 2) && is(&inst.src[1], Operand::Vgpr(1), 1) && !inst.src[2].is_some());
    // buffer_atomic_add_u32 v0, v1, s[4:7], s3 idxen glc: the data is read and written.
    let inst = read(Arch::Gfx1100, &[0xe0d4_4000, 0x0381_0001]);
    assert!(inst.idxen && !inst.offen);
    assert!(is(&inst.dst, Operand::Vgpr(0), 1) && is(&inst.src[1], Operand::Vgpr(0), 1));
    assert!(is(&inst.src[2], Operand::Sgpr(4), 4) && is(&inst.src[3], Operand::Sgpr(3), 1));
    // ds_write2_b32 v0, a1, a2 offset1:1: one bit makes all data accumulation registers.
    let inst = read(Arch::Gfx90a, &[0xda1c_0100, 0x0002_0100]);
    assert_eq!((inst.op, inst.offset, inst.offset1), (Op::DS_STORE_2ADDR_B32, 0, 1));
    assert!(is(&inst.src[1], Operand::Agpr(1), 1) && is(&inst.src[2], Operand::Agpr(2), 1));
    // ds_add_rtn_u32 v0, v1, v2
    let inst = read(Arch::Gfx1100, &[0xd880_0000, 0x0000_0201]);
    assert_eq!((inst.op, inst.returns, inst.cache), (Op::DS_ADD_U32, true, 0));
}
