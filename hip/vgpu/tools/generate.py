"""Writes src/tables from LLVM's description of the AMDGPU target.

    apt-get install llvm-19                      # llvm-tblgen-19
    apt-get source --download-only llvm-toolchain-19   # unpack llvm/include and llvm/lib/Target/AMDGPU
    cd llvm/lib/Target/AMDGPU
    llvm-tblgen-19 --dump-json -I ../../../include AMDGPU.td -o amdgpu.json
    python3 hip/vgpu/tools/generate.py amdgpu.json

The tables are facts: opcode numbers, field positions, mnemonics and operand types, checked in as they are written here.
"""

import os
import sys

from operations import Operations
from records import Records

HEAD = "// Written by tools/generate.py; do not edit.\n"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "tables")


def write(file, text):
    with open(os.path.join(FOLDER, file), "w", encoding="utf-8") as out:
        out.write(HEAD + text)


def operations(names):
    lines = "".join("    %s %s\n" % (name.upper(), '"%s"' % name) for name in names)
    write("op.rs", "//! The operations of all targets.\n\nsuper::operations! {\n%s}\n" % lines)


def main():
    records = Records(sys.argv[1])
    found = Operations(records)
    operations(found.names)


if __name__ == "__main__":
    main()
