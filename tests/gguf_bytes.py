"""A GGUF file as bytes, for the tests and what makes their data. Needs nothing
but Python's standard library."""

import pathlib
import struct


class Gguf:
    """A GGUF file as bytes, with the places where its values lie."""

    SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?",
               10: "Q", 11: "q", 12: "d"}

    def __init__(self, path):
        self.bytes = bytearray(pathlib.Path(path).read_bytes())
        self.at = 8
        num_tensors, num_keys = self._take("<QQ")
        self.values = {}  # key -> offset of its value
        self.kinds = {}  # key -> the type id of its value
        for _ in range(num_keys):
            key = self._string().decode()
            (kind,) = self._take("<I")
            self.kinds[key] = kind
            self.values[key] = self.at
            self._value(kind)
        self.tensors = {}  # name -> (offset of the type id, offset of data)
        infos = []
        for _ in range(num_tensors):
            name = self._string().decode()
            (rank,) = self._take("<I")
            self.at += 8 * rank
            type_at = self.at
            _, offset = self._take("<IQ")
            infos.append((name, type_at, offset))
        data = (self.at + 31) // 32 * 32
        for name, type_at, offset in infos:
            self.tensors[name] = (type_at, data + offset)

    def value(self, key):
        """A number, bytes, or a list of them."""
        self.at = self.values[key]
        return self._value(self.kinds[key])

    def tensor_bytes(self):
        """(name, type id, bytes up to the next tensor) of every tensor."""
        starts = sorted(at for _, at in self.tensors.values())
        ends = dict(zip(starts, starts[1:] + [len(self.bytes)]))
        for name, (kind, at) in self.tensors.items():
            yield (name, int.from_bytes(self.bytes[kind:kind + 4], "little"),
                   bytes(self.bytes[at:ends[at]]))

    def _take(self, layout):
        values = struct.unpack_from(layout, self.bytes, self.at)
        self.at += struct.calcsize(layout)
        return values

    def _string(self):
        (length,) = self._take("<Q")
        self.at += length
        return bytes(self.bytes[self.at - length:self.at])

    def _value(self, kind):
        if kind == 8:
            return self._string()
        if kind != 9:
            return self._take("<" + self.SCALARS[kind])[0]
        elem_kind, count = self._take("<IQ")
        if elem_kind in self.SCALARS:
            return list(self._take(f"<{count}{self.SCALARS[elem_kind]}"))
        return [self._value(elem_kind) for _ in range(count)]
