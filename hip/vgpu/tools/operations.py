"""One name for one operation over all targets: mnemonics that LLVM makes of the same pseudo instruction are one operation,
and the newest spelling is its name."""

import re

from records import ARCHS, asm, is_image, mnemonic

# Parts of a pseudo instruction's name that say how it is encoded or addressed, not what it does.
FORM = (
    r"_+(e32|e64|sdwa|dpp8|dpp|t16|fake16|nosdst|rtn|saddr|offen|idxen|bothen|offset|addr64|svs|st|exact|noret|tfe|w32|w64|"
    r"twoaddr|threeaddr|mac|vgprcd|acd|vcd|vbuffer|tfeoffen|tfeoffset|tfeidxen|tfebothen|pseudo|op_sel|inreg)(?=_|$)"
)

# The same pseudo instruction, but not the same operation, or the other way round.
APART = {"s_ttracedata_imm", "s_ttracedata"}
SAME = {"v_max_f64": "v_max_num_f64", "v_min_f64": "v_min_num_f64"}


def pseudo(record):
    text = record.get("PseudoInstr")
    if not text:
        return None
    text = text.lower().split(" ")[0]
    if record["SMRD"]:
        text = re.sub(r"_(imm|sgpr|sgpr_imm)(_rtn)?$", "", text)
    while True:
        shorter = re.sub(FORM, "", text)
        if shorter == text:
            return text
        text = shorter


def plain(record):
    """The mnemonic as an operation's name: DS operations that return are the same as those that do not, VOPD halves and
    exports are what they are elsewhere."""
    text = mnemonic(record)
    if text.startswith("ds_"):
        text = text.replace("_rtn", "")
    return text


class Operations:
    """`canon[mnemonic]` is the operation's name, `names` all of them, sorted."""

    def __init__(self, records):
        self.parent = {}
        spoken = {}
        for arch in ARCHS:
            for wave in (32, 64):
                for _, record in records.of(arch, wave):
                    if record["AsmString"].startswith("v_dual"):
                        continue
                    word = plain(record)
                    spoken.setdefault(word, set()).add(arch)
                    self._find(word)
                    base = pseudo(record)
                    if base and not is_image(record) and word not in APART and not asm(record).endswith(" lds"):
                        self._join(word, "pseudo " + base)
        for old, new in SAME.items():
            self._join(old, new)
        groups = {}
        for word in spoken:
            groups.setdefault(self._find(word), []).append(word)
        self.canon = {}
        for words in groups.values():
            for arch in ARCHS:
                here = [word for word in words if arch in spoken[word]]
                if len(here) > 1:
                    raise SystemExit("two names of one operation on %s: %s" % (arch, here))
            newest = max(words, key=lambda word: (not word.endswith("_x2"), max(map(ARCHS.index, spoken[word])), word))
            for word in words:
                self.canon[word] = newest
        self.names = sorted(set(self.canon.values()))

    def _find(self, node):
        self.parent.setdefault(node, node)
        while self.parent[node] != node:
            node = self.parent[node]
        return node

    def _join(self, one, other):
        self.parent[self._find(one)] = self._find(other)

    def of(self, record):
        return self.canon[plain(record)]
