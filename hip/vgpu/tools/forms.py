"""What one record says: which bits are fixed, where its operands lie and what they are, and how it is printed.

The operand names of the records are mapped to the slots of vgpu's decoded form (`dst`, `sdst`, `src0` to `src3`); the text
is a template of vgpu's own tokens. See src/tables/mod.rs for both.
"""

import re

from records import SUFFIX, asm, is_image, name

TYPES = {
    "INT32": "B32", "FP32": "F32", "INT16": "B16", "FP16": "F16", "BF16": "Bf16", "INT64": "B64", "FP64": "F64",
    "V2INT16": "V2B16", "V2FP16": "V2F16", "V2BF16": "V2Bf16", "V2INT32": "V2B32", "V2FP32": "V2F32",
}

# Print methods that print a part of the decoded form under a name of its own.
PRINTED = {
    "printOffset": "offset", "printFlatOffset": "flat_offset", "printOffset0": "offset0", "printOffset1": "offset1",
    "printSMEMOffset": "smem_offset", "printSMEMOffsetMod": "smem_offset_mod", "printCPol": "cpol",
    "printDPPCtrl": "dpp_ctrl", "printDppRowMask": "row_mask", "printDppBankMask": "bank_mask",
    "printDppBoundCtrl": "bound_ctrl", "printDppFI": "fi", "printDPP8": "dpp8", "printOModSI": "omod",
    "printSDWASrc0Sel": "src0_sel", "printSDWASrc1Sel": "src1_sel", "printSDWADstSel": "dst_sel",
    "printSDWADstUnused": "dst_unused", "printOpSel": "op_sel", "printOpSelHi": "op_sel_hi", "printNegLo": "neg_lo",
    "printNegHi": "neg_hi", "printCBSZ": "cbsz", "printABID": "abid", "printBLGP": "blgp", "printHwreg": "hwreg",
    "printSendMsg": "sendmsg", "printSwizzle": "swizzle", "printEndpgm": "endpgm", "printSWaitCnt": "waitcnt",
    "printGPRIdxMode": "gpr_idx", "printDepCtr": "depctr", "printSDelayALU": "delay", "printByteSel": "byte_sel",
    "printIndexKey16bit": "index_key", "printIndexKey8bit": "index_key", "printWaitEXP": "waitexp",
    "printInterpAttr": "attr", "printInterpAttrChan": "attrchan", "printInterpSlot": "slot", "printExpTgt": "tgt",
    "printExpSrc0": "exp0", "printExpSrc1": "exp1", "printExpSrc2": "exp2", "printExpSrc3": "exp3",
    "printWaitVDST": "waitvdst", "printWaitVAVDst": "waitvavdst", "printWaitVMVSrc": "waitvsrc", "printFORMAT": "",
}


class Form:
    """A record, read. `failure` names what could not be."""

    def __init__(self, records, key, record):
        self.records, self.key, self.record = records, key, record
        self.size = record["Size"]
        self.outs = [(argument[1], name(argument[0])) for argument in record["OutOperandList"]["args"]]
        self.ins = [(argument[1], name(argument[0])) for argument in record["InOperandList"]["args"]]
        self.operands = dict(self.outs + self.ins)
        self.uses = [name(value) for value in record["Uses"]]
        self.defs = [name(value) for value in record["Defs"]]
        self.text = asm(record)
        self._bits()
        self.encoding = self._encoding()
        self.short = {"Vop1": "VOP1", "Vop2": "VOP2", "Vopc": "VOPC"}.get(self.encoding)
        self.dual = self.encoding == "Vopd"
        self.flags = self._flags()
        if is_image(record):
            first, _, _ = self.text.partition(" ")
            self.mnemonic, self.template, self.layout, self.implied = first, "", tuple(self._image_fields()), ()
            return
        self.mnemonic, self.template = self._text()
        self.layout = tuple(self._fields())
        self.implied = tuple(self._implied())

    def _bits(self):
        """Mask and value of the fixed bits, and the variables' segments as (position, length, shift)."""
        self.mask = self.value = 0
        places = {}
        for position, bit in enumerate(self.record["Inst"][: self.size * 8]):
            if isinstance(bit, int):
                self.mask |= 1 << position
                self.value |= bit << position
            elif isinstance(bit, dict) and bit["kind"] in ("varbit", "var"):
                places.setdefault(bit["var"], []).append((position, bit.get("index", 0)))
        self.segments = {}
        for variable, bits in places.items():
            segments = []
            for position, index in bits:
                if segments:
                    start, length, shift = segments[-1]
                    if start + length == position and shift + length == index:
                        segments[-1] = (start, length + 1, shift)
                        continue
                segments.append((position, 1, index))
            self.segments[variable] = tuple(segments)

    def _encoding(self):
        record = self.record
        if self.key.startswith("V_DUAL"):
            return "Vopd"
        if is_image(record):
            return "Image"
        if record["FLAT"]:
            return "Global" if record["FlatGlobal"] else "Scratch" if record["FlatScratch"] else "Flat"
        order = ["VOP3P", "VOP3", "VOPC", "VOP2", "VOP1", "SOP1", "SOP2", "SOPK", "SOPC", "SOPP"]
        plain = not record["SDWA"] and not record["DPP"] and "imm" not in self.operands
        for flag in order:
            if record[flag]:
                # v_readlane and v_writelane are VOP2 by their flags, but have the 64-bit form only.
                return "Vop3" if flag.startswith("VOP") and flag != "VOP3P" and plain and self.size == 8 else flag.capitalize()
        names = {"SMRD": "Smem", "DS": "Ds", "MUBUF": "Mubuf", "MTBUF": "Mtbuf", "EXP": "Export", "LDSDIR": "LdsDir",
                 "VINTERP": "Vinterp", "VINTRP": "Vinterp"}
        for flag, encoding in names.items():
            if record[flag]:
                return encoding
        # DPP and SDWA forms have no flag of their own: their classes say what they are forms of.
        for flag in ("VOPC", "VOP2", "VOP1"):
            if any(parent.startswith(flag) for parent in record["!superclasses"]):
                return flag.capitalize()
        if self.key == "V_ILLEGAL":
            return "Vop1"
        raise SystemExit("no encoding: " + self.key)

    def _flags(self):
        record, flags = self.record, []
        for flag, names in {
            "PACKED": ["IsPacked"], "WMMA": ["IsWMMA", "IsSWMMAC"], "OPSEL": ["VOP3_OPSEL"],
            "ATOMIC": ["IsAtomicNoRet", "IsAtomicRet"], "RETURNS": ["IsAtomicRet"], "STORE": ["mayStore"],
            "SDWA": ["SDWA"], "DPP": ["DPP"], "VOP3P": ["VOP3P"],
        }.items():
            if any(record[field] for field in names):
                flags.append(flag)
        for flag, word in {"IDXEN": " idxen", "OFFEN": " offen", "TFE": " tfe", "LDS": " lds", "GDS": " gds"}.items():
            if re.search(word + r"\b", self.text):
                flags.append(flag)
        if record["DPP"] and any(self._class(self.operands[o]) == "VReg_64" for o in ("vdst", "src0", "src1")
                                 if o in self.operands):
            flags.append("DPALU")
        return tuple(sorted(flags))

    def _class(self, operand):
        record = self.records.others[operand]
        if "RegisterClass" in record["!superclasses"]:
            return operand
        return name(record["RegClass"]) if "RegisterOperand" in record["!superclasses"] else None

    def _dwords(self, cls):
        record = self.records.others[cls]
        if cls.startswith("SReg_1") and not re.match(r"SReg_\d{2}", cls):
            return 0
        found = re.search(r"_(\d+)", cls)
        if not found:
            raise SystemExit("no width: " + cls + str(record["RegTypes"]))
        return (int(found.group(1)) + 31) // 32

    def kind(self, operand):
        """How an operand is decoded: (how, dwords, type, register class)."""
        record = self.records.others[operand]
        cls = self._class(operand)
        method = record.get("DecoderMethod") or ""
        if cls is None:
            hows = {"": "Imm", "decodeSMEMOffset": "SmemOffset", "decodeDpp8FI": "Dpp8Fi", "decodeSOPPBrTarget": "Imm",
                    "decodeOperand_KImmFP": "Literal", "decodeVersionImm": "Imm", "decodeSplitBarrier": "Src"}
            ty = "F16" if record.get("OperandType") == "OPERAND_KIMM16" else "B32"
            return (hows[method], 1, ty, "")
        dwords = self._dwords(cls)
        ty = "B64" if dwords == 2 else "B32"
        found = re.search(r"(?:REG_IMM|INLINE_C|INLINE_AC)_(\w+?)(?:_DEFERRED)?$", record.get("OperandType") or "")
        if found:
            ty = TYPES[found.group(1)]
        if not method or method == "DecodeVGPR_32RegisterClass":
            if cls.startswith("SReg"):
                how = "Sreg"
            elif re.match(r"A(GPR|Reg)_", cls):
                how = "Agpr"
            elif cls == "VGPR_32_Lo128" and not method:
                how = "VgprLow"
            elif re.match(r"V(GPR|Reg)_", cls):
                how = "Vgpr"
            else:
                raise SystemExit("class of %s: %s" % (operand, cls))
            return (how, dwords, ty, cls)
        base, _, arguments = method.partition("<")
        hows = {
            "decodeSrcRegOrImm9": "Src", "decodeSrcRegOrImmDeferred9": "Deferred", "decodeSrcReg9": "SrcReg",
            "decodeSrcRegOrImmA9": "SrcA", "decodeSrcA9": "SrcRegA", "decodeSrcAV10": "SrcAv", "decodeAV10": "Av",
            "decodeAVLdSt": "AvLdSt", "decodeOperand_VSrc_f64": "Src", "decodeBoolReg": "Bool", "decodeSDWASrc32": "Sdwa",
            "decodeSDWASrc16": "Sdwa", "decodeSDWAVopcDst": "SdwaDst", "decodeOperandVOPDDstY": "OtherDst",
            "DecodeVGPR_16_Lo128RegisterClass": "Half", "decodeOperand_VSrcT16_Lo128": "SrcHalf",
        }
        width = re.match(r"AMDGPUDisassembler::OPW(\d+)", arguments)
        if width and base not in ("decodeBoolReg",):
            dwords = (int(width.group(1)) + 31) // 32
        if base == "decodeSDWASrc16":
            ty = {"F16": "F16"}.get(ty, "B16")
        return (hows[base], dwords, ty, cls)

    def _slots(self):
        """The slot of each operand that lies in a register or a constant."""
        slots = {}
        outs = dict(self.outs)
        constant_first = "$imm, $src1" in self.text or "$imm, $vsrc1" in self.text
        for operand in self.operands:
            base, half = operand, ""
            if self.dual and operand[-1] in "XY":
                base, half = operand[:-1], "Y" if operand[-1] == "Y" else ""
            slot = {
                "vdst": "dst", "sdst": "sdst" if "vdst" in self.operands else "dst", "src0": "src0", "src1": "src1",
                "src2": "src2", "src3": "src3", "vsrc1": "src1", "vaddr": "src0", "addr": "src0", "data0": "src1",
                "data1": "src2", "saddr": "src2", "srsrc": "src2", "sbase": "src0", "idx": "src3", "vsrc": "src0",
                "soffset": "src1" if self.record["SMRD"] else "src3",
                "vdata": "dst" if operand in outs else "src1", "sdata": "dst" if operand in outs else "src2",
            }.get(base)
            if slot and self.operands[operand] != "i8imm":
                slots[operand] = slot + half
        if self.record["IsSWMMAC"]:
            slots["src2"] = "src3"
        if "imm" in self.operands and not self.dual:
            if self.record["SOPK"]:
                slots["imm"] = "src0"
            elif constant_first:
                slots["imm"], slots["src1"] = "src1", "src2"
            else:
                slots["imm"] = "src2"
        if self.dual:
            for half, text in zip(("X", "Y"), self.text.split("::")):
                found = re.search(r"\$(imm\w*)(, \$vsrc1)?", text)
                if found:
                    mark = "Y" if half == "Y" else ""
                    slots[found.group(1)] = ("src1" if found.group(2) else "src2") + mark
                    if found.group(2):
                        slots["vsrc1" + half] = "src2" + mark
        return slots

    def _fields(self):
        slots = self._slots()
        order = [operand for operand, _ in self.outs + self.ins]
        for operand in order:
            segments = self.segments.get(operand)
            if operand == "immDeferred":
                segments = self.segments["imm"]
            if not segments:
                continue
            how = self.kind(self.operands[operand])
            slot = slots.get(operand)
            if slot is None:
                slot = "simm16" if operand == "sdata" else operand
            elif self._method(operand) in ("printSendMsg", "printGPRIdxMode"):
                slot = "simm16"
            elif how[0] == "Imm":
                how = ("Literal", 1, "B32", "")
            yield (slot, how, segments)

    def _image_fields(self):
        """Images are known by name; their registers are read to tell an instruction from what is none."""
        for operand, definition in self.outs + self.ins:
            segments = self.segments.get(operand)
            if segments and self._class(definition):
                slot = {"vdata": "dst", "vdst": "dst", "srsrc": "src2", "rsrc": "src2", "ssamp": "src3", "samp": "src3"}
                yield (slot.get(operand, "src0"), self.kind(definition), segments)

    def _implied(self):
        """Operands that no field holds: (slot, what)."""
        slots = self._slots()
        encoded = {slots[o] for o in slots if o in self.segments or o == "immDeferred"}
        for one, other in re.findall(r"\$(\w+) = \$(\w+)", self.record["Constraints"]):
            for tied, target in ((one, other), (other, one)):
                if tied in self.segments or target not in self.segments:
                    continue
                slot = slots.get(tied)
                if tied in ("vdata_in",):
                    slot = "src1"
                if tied == "sdata":
                    slot = "src2"
                if tied == "vdst_in" and "writelane" in self.text:
                    slot = "src2"
                if tied == "vdst1":
                    slot = "sdst"
                if slot and slot not in encoded:
                    encoded.add(slot)
                    ty = self.kind(self.operands[tied])[2]
                    yield (slot, "%s %s" % (slots[target], ty))
        if self.record["IsSWMMAC"]:
            yield ("src2", "dst B32")
        if self.dual:
            for half, text in zip(("", "Y"), self.text.split("::")):
                if "cndmask" in text:
                    yield ("src2" + half, "vcc")
            return
        if not self.short and self.encoding != "Vop3":
            return
        compare = re.match(r"v_cmpx?_", self.text)
        if compare and "dst" not in encoded:
            yield ("dst", "vcc" if "VCC" in self.defs else "exec")
        elif "VCC" in self.defs and "sdst" not in encoded and "dst" in encoded and not compare:
            yield ("sdst", "vcc")
        if "VCC" in self.uses and "src2" not in encoded and self.short == "VOP2":
            yield ("src2", "vcc")

    def _suffix(self):
        record = self.record
        if record["VOP3"] and record["DPP"]:
            return "_e64_dpp"
        if record["VOP3"]:
            return "" if record["IsSingle"] else "_e64"
        if record["DPP"]:
            return "_dpp"
        if record["SDWA"]:
            return "_sdwa"
        return "_e32" if (record["VOP1"] or record["VOP2"]) and not record["IsSingle"] else ""

    def _text(self):
        """Mnemonic and template."""
        slots = self._slots()
        found = re.match(r"[^\s$]+", self.text)
        mnemonic, rest = found.group(0), self.text[found.end():]
        if self.dual:
            other = re.search(r":: (\S+)", rest).group(1)
            rest = rest.replace(":: " + other, "::")
            mnemonic += " " + other
        first = self.outs[0][0] if self.outs else self.ins[0][0] if self.ins else ""
        if rest.startswith("$" + first) and self._method(first) in ("printVOPDst", "printVINTRPDst"):
            mnemonic += self._suffix() if self._method(first) == "printVOPDst" else "_e32"
            rest = " " + rest

        def token(match):
            operand = match.group(1)
            method = self._method(operand)
            if method in PRINTED:
                return "$" + PRINTED[method] if PRINTED[method] else ""
            bit = re.search(r'printNamedBit\(MI, OpNo, O, "(\w+)"\)', method)
            if bit:
                return "$" + bit.group(1)
            if method in ("printOperandAndFPInputMods", "printOperandAndIntInputMods"):
                source = operand.replace("_modifiers", "")
                short = "fp" if "FP" in method else "int"
                return "$" + short + slots[source][3:]
            if operand in slots:
                kind = self.records.others[self.operands[operand]]
                if method == "printU16ImmOperand":
                    return "$" + slots[operand].replace("src", "half")
                if method == "printU32ImmOperand":
                    return "$" + slots[operand].replace("src", "word")
                tail = "$format" if self.record["MTBUF"] and operand == "soffset" else ""
                if slots[operand].startswith("src") and kind.get("OperandType") == "OPERAND_IMMEDIATE":
                    return "$" + slots[operand].replace("src", "imm")
                return "$" + slots[operand] + tail
            if operand in ("simm16", "sdata"):
                what = self.records.others[self.operands[operand]].get("OperandType")
                if self.operands[operand] == "VersionImm":
                    return "$version"
                if method == "printU16ImmOperand":
                    return "$hex"
                return "$dec" if what == "OPERAND_PCREL" else "$imm"
            raise SystemExit("%s: how is %s printed (%s)" % (self.key, operand, method))

        rest = re.sub(r"\$(\w+)", token, rest)
        rest = self._with_vcc(rest)
        return mnemonic, rest

    def _method(self, operand):
        record = self.records.others[self.operands[operand]]
        return record.get("PrintMethod") or "printOperand"

    def _with_vcc(self, rest):
        """The text with the VCC that the printer adds by itself."""
        if self.dual or "vcc" in rest:
            return rest
        if self.short == "VOPC" and "VCC" in self.defs and not any(o == "sdst" for o, _ in self.outs):
            return " $vcc," + rest
        if self.short == "VOP2" and "VCC" in self.uses and "src2" not in self.operands:
            # On gfx12 LLVM puts it within the bars of an absolute value.
            if self.key == "V_CNDMASK_B32_dpp_gfx12":
                return rest.replace("$fp1", "$fp1vcc")
            rest = re.sub(r"(\$(?:src|fp|int)1)\b", r"\1, $vcc", rest)
            if "VCC" in self.defs:
                rest = re.sub(r"\$dst\b", "$dst, $vcc", rest)
        return rest

    def word(self):
        """The mnemonic without its suffix."""
        return re.sub(SUFFIX, "", self.mnemonic.split(" ")[0])
