"""Writes src/tables from LLVM's description of the AMDGPU target.

    apt-get install llvm-19                            # has llvm-tblgen-19
    apt-get source --download-only llvm-toolchain-19   # unpack llvm/include and llvm/lib/Target/AMDGPU
    cd llvm/lib/Target/AMDGPU
    llvm-tblgen-19 --dump-json -I ../../../include AMDGPU.td -o amdgpu.json
    python3 hip/vgpu/tools/generate.py amdgpu.json

With `--check` nothing is written: it fails where a file is not what would be written.

The tables are facts: opcode numbers, field positions, mnemonics and operand types, checked in as they are written here.
Two records of one target that claim the same bits are an error.
"""

import os
import sys

from forms import Form
from operations import Operations
from records import ARCHS, TABLES, Records, is_image

HEAD = "// Written by tools/generate.py; do not edit.\n"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "tables")


def write(file, text):
    path = os.path.join(FOLDER, file)
    text = text.replace("\n\n", "\n\n" + HEAD + "\n", 1)
    if "--check" in sys.argv:
        with open(path, encoding="utf-8") as there:
            if there.read() != text:
                raise SystemExit("%s is not what %s says; write it anew" % (file, sys.argv[1]))
        return
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def camel(text):
    return "".join(part[:1].upper() + part[1:] for part in text.split("_"))


class Pool:
    """Numbers for equal things, in the order of their first appearance."""

    def __init__(self):
        self.number = {}

    def __call__(self, item):
        return self.number.setdefault(item, len(self.number))

    def __iter__(self):
        return iter(self.number)


class Tables:
    def __init__(self, records):
        self.records = records
        self.operations = Operations(records)
        self.op = {operation: number for number, operation in enumerate(self.operations.names)}
        self.kinds, self.fields, self.layouts, self.names = Pool(), Pool(), Pool(), Pool()
        self.groups = {arch: self._arch(arch) for arch in ARCHS}

    def _arch(self, arch):
        waves = {}
        for wave in (32, 64):
            for key, _ in self.records.of(arch, wave):
                waves[key] = waves.get(key, 0) | wave // 32
        forms = {key: Form(self.records, key, self.records.instructions[key]) for key in waves}
        self._check(arch, forms, waves)
        groups = {}
        for key, form in forms.items():
            order = TABLES[arch][form.size].index(form.record["DecoderNamespace"])
            layout = self.layouts((form.template, tuple(map(self._field, form.layout)), form.implied))
            group = (form.size, order, waves[key], form.mask, form.value >> 32, form.encoding, form.flags, layout,
                     self._addresses(form))
            operation = self.operations.canon.get(self._operation(form))
            if operation is None:
                raise SystemExit("no operation: " + key)
            row = (form.value & 0xFFFFFFFF, self.names(form.mnemonic), self.op[operation])
            groups.setdefault(group, []).append(row)
        return groups

    @staticmethod
    def _addresses(form):
        """Images: how many address registers follow the instruction, one byte each."""
        if not form.record["MIMG"]:
            return 0
        return max(0, sum(operand.startswith("vaddr") for operand in form.operands) - 1)

    @staticmethod
    def _operation(form):
        word = form.word()
        if form.dual:
            return word.replace("v_dual_", "v_")
        return word.replace("_rtn", "") if word.startswith("ds_") else word

    def _check(self, arch, forms, waves):
        seen = {}
        for key, form in forms.items():
            for wave in (1, 2):
                if not waves[key] & wave:
                    continue
                bits = (form.size, form.record["DecoderNamespace"], wave, form.mask, form.value)
                other = seen.setdefault(bits, form)
                if other is not form and not is_image(form.record):
                    same = (other.mnemonic, other.template) == (form.mnemonic, form.template)
                    if not same:
                        raise SystemExit("%s: %s and %s have the same bits" % (arch, other.key, key))

    def _field(self, field):
        slot, kind, segments = field
        return self.fields((camel(slot), self.kinds(kind), segments))

    def write(self):
        lines = "".join('    %s "%s"\n' % (operation.upper(), operation) for operation in self.operations.names)
        write("op.rs", "//! The operations of all targets.\n\nsuper::operations! {\n%s}\n" % lines)
        self._write_layouts()
        for arch in ARCHS:
            self._write_arch(arch)

    def _write_layouts(self):
        out = ["//! Operands, layouts and mnemonics of all targets.\n\n"]
        out.append("use super::{field, kind, layout, Field, How::*, Implied::*, Kind, Layout, Name::*};\nuse crate::inst::Ty::*;\n\n")
        out.append("#[rustfmt::skip]\npub static KINDS: &[Kind] = &[\n")
        for how, dwords, ty, cls in self.kinds:
            out.append('    kind(%s, %d, %s, "%s"),\n' % (how, dwords, ty, cls))
        out.append("];\n\n#[rustfmt::skip]\npub static FIELDS: &[Field] = &[\n")
        for slot, kind, segments in self.fields:
            bits = ", ".join("(%d, %d, %d)" % segment for segment in segments)
            out.append("    field(%s, %d, &[%s]),\n" % (slot, kind, bits))
        out.append("];\n\n#[rustfmt::skip]\npub static LAYOUTS: &[Layout] = &[\n")
        for template, fields, implied in self.layouts:
            hints = []
            for slot, what in implied:
                if what in ("vcc", "exec"):
                    hints.append("%s(%s)" % (what.capitalize(), camel(slot)))
                else:
                    source, ty = what.split(" ")
                    hints.append("Tied(%s, %s, %s)" % (camel(slot), camel(source), ty))
            numbers = ",".join(map(str, fields))
            out.append('    layout("%s", &[%s], &[%s]),\n' % (template, numbers, ", ".join(hints)))
        out.append("];\n\n#[rustfmt::skip]\npub static NAMES: &[&str] = &[\n")
        for mnemonic in self.names:
            out.append('    "%s",\n' % mnemonic)
        out.append("];\n\n#[rustfmt::skip]\npub static DUAL: &[(&str, u16)] = &[\n")
        duals = {part for mnemonic in self.names for part in mnemonic.split(" ") if part.startswith("v_dual_")}
        for dual in sorted(duals):
            operation = self.operations.canon[dual.replace("v_dual_", "v_")]
            out.append('    ("%s", %d),\n' % (dual, self.op[operation]))
        out.append("];\n")
        write("layouts.rs", "".join(out))

    def _write_arch(self, arch):
        out = ["//! The instructions of %s.\n\nuse super::{flags, group, Group};\nuse crate::inst::Encoding::*;\n\n" % arch]
        out.append("#[rustfmt::skip]\npub static GROUPS: &[Group] = &[\n")
        for group, rows in self.groups[arch].items():
            size, order, waves, mask, high, encoding, flags, layout, addresses = group
            bits = " | ".join("flags::" + flag for flag in flags) or "0"
            head = (size, order, waves, mask, high, encoding, bits, layout, addresses)
            line = "group(%d, %d, %d, %#x, %#x, %s, %s, %d, %d, &[" % head
            for row in rows:
                text = "(%#x,%d,%d)," % row
                if len(line) + len(text) > 120:
                    out.append(line + "\n")
                    line = ""
                line += text
            out.append(line + "]),\n")
        out.append("];\n")
        write(arch + ".rs", "".join(out))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    Tables(Records(sys.argv[1])).write()
