"""The instruction records of LLVM's AMDGPU target, as `llvm-tblgen --dump-json` prints them, for the targets of vgpu.

A record is taken for a target when LLVM's disassembler would look at it: its decoder namespace is one of the target's and
its predicates hold for the target's features.
"""

import json
import os
import pickle
import re

ARCHS = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"]

# The decoder tables of a target in the order in which they are tried, by instruction length in bytes.
TABLES = {
    "gfx90a": {8: ["GFX9_DL", "GFX90A", "GFX8", "GFX9"], 4: ["GFX8", "AMDGPU", "GFX9", "GFX90A"]},
    "gfx942": {8: ["GFX9_DL", "GFX940", "GFX90A", "GFX8", "GFX9"], 4: ["GFX8", "AMDGPU", "GFX9", "GFX90A"]},
    "gfx1030": {8: ["GFX10_B", "GFX10"], 4: ["AMDGPU", "GFX10_B", "GFX10"]},
    "gfx1100": {
        12: ["GFX11", "GFX11_FAKE16"],
        8: ["GFX11", "GFX11_FAKE16", "GFX11W64"],
        4: ["AMDGPU", "GFX11", "GFX11_FAKE16"],
    },
    "gfx1201": {
        12: ["GFX12", "GFX12_FAKE16", "GFX12W64"],
        8: ["GFX12", "GFX12_FAKE16", "GFX12W64"],
        4: ["AMDGPU", "GFX12", "GFX12_FAKE16"],
    },
}


# Fields that only the pseudo instruction has; the flag word is copied to what is encoded.
FLAGS = {
    "SOP1": 2, "SOP2": 3, "SOPC": 4, "SOPK": 5, "SOPP": 6, "VOP1": 7, "VOP2": 8, "VOPC": 9, "VOP3": 10, "VOP3P": 12,
    "VINTRP": 13, "SDWA": 14, "DPP": 15, "MUBUF": 17, "MTBUF": 18, "SMRD": 19, "MIMG": 20, "VIMAGE": 21, "VSAMPLE": 22,
    "EXP": 23, "FLAT": 24, "DS": 25, "LDSDIR": 28, "VINTERP": 29, "VOP3_OPSEL": 42, "IsPacked": 49, "FlatGlobal": 51,
    "FlatScratch": 56, "IsAtomicNoRet": 57, "IsAtomicRet": 58, "IsWMMA": 59, "IsSWMMAC": 63,
}


def name(value):
    """The name of a reference to a definition."""
    return value["def"] if isinstance(value, dict) else value


class Records:
    """All that the generator needs of the dump."""

    def __init__(self, path):
        cache = path + ".pickle"
        if os.path.exists(cache) and os.path.getmtime(cache) > os.path.getmtime(path):
            with open(cache, "rb") as file:
                self.instructions, self.others = pickle.load(file)
        else:
            self._read(path, cache)
        for record in self.instructions.values():
            for field, bit in FLAGS.items():
                record[field] = record["TSFlags"][bit]
        processors = {r["Name"]: r for r in self.others.values() if "Processor" in r["!superclasses"]}
        self.features = {arch: self._closure(processors[arch]["Features"]) for arch in ARCHS}

    def _read(self, path, cache):
        wanted = {"Predicate", "DAGOperand", "RegisterClass", "RegisterOperand", "SubtargetFeature", "Processor"}
        with open(path, encoding="utf-8") as file:
            dump = json.load(file)
        self.instructions, self.others = {}, {}
        for key, record in dump.items():
            if not isinstance(record, dict):
                continue
            supers = record.get("!superclasses", [])
            if "Instruction" in supers:
                if "Inst" in record and not record.get("isPseudo"):
                    self.instructions[key] = record
            elif wanted.intersection(supers):
                self.others[key] = record
        with open(cache, "wb") as file:
            pickle.dump((self.instructions, self.others), file)

    def _closure(self, features):
        found, todo = set(), [name(f) for f in features]
        while todo:
            feature = todo.pop()
            if feature not in found:
                found.add(feature)
                todo += [name(f) for f in self.others[feature]["Implies"]]
        return found

    def _holds(self, predicate, features):
        record = self.others[predicate]
        condition = record.get("AssemblerCondDag")
        if not record["AssemblerMatcherPredicate"] or not condition:
            return True

        def evaluate(node):
            if node["kind"] == "def":
                return node["def"] in features
            values = [evaluate(argument[0]) for argument in node["args"]]
            operator = name(node["operator"])
            return all(values) if operator == "all_of" else any(values) if operator == "any_of" else not values[0]

        return evaluate(condition)

    def of(self, arch, wave):
        """The records that the target's disassembler knows, as (name, record)."""
        features = set(self.features[arch])
        if "FeatureWavefrontSize64" not in features:
            features.add("FeatureWavefrontSize%d" % wave)
        for key, record in self.instructions.items():
            if record["isCodeGenOnly"] or record["isAsmParserOnly"]:
                continue
            if record["DecoderNamespace"] not in TABLES[arch].get(record["Size"], []):
                continue
            if all(self._holds(name(p), features) for p in record["Predicates"]):
                yield key, record


def asm(record):
    """What is printed: of alternatives in braces the first."""
    text = record["AsmString"]
    return re.sub(r"\{([^{}|]*)(\|[^{}]*)?\}", r"\1", text).strip()


SUFFIX = r"_(e64_dpp8|e64_dpp|e32|e64|sdwa|dpp8|dpp)$"


def mnemonic(record):
    """The mnemonic without the encoding's suffix."""
    first = re.split(r"[\s$]", asm(record))[0]
    return re.sub(SUFFIX, "", first)


def is_image(record):
    return bool(record["MIMG"] or record["VIMAGE"] or record["VSAMPLE"])
