"""Rooms include only what the table of docs/ARCHITECTURE.md allows."""

import dataclasses
import re

from tree import Violation

TABLE_PATH = 'docs/ARCHITECTURE.md'
TABLE_HEAD = ['level', 'folder', 'holds', 'may use', 'third party']

# Names of the table's last column -> the headers they stand for. A pattern is
# matched against the whole path between the brackets or quotes.
THIRD_PARTY = {
    'CBC': r'(cbc|coin|coin-or)/.*|(Cbc|Osi|Clp|Coin)\w*\.hpp?',
    'CLI11': r'CLI/.*',
    'CUDA': r'cuda(?!_on_host/).*|cu(blas|fft|rand|sparse).*|nv\w+\.h|cub/.*',
    'Highway': r'hwy/.*',
    'JSON': r'nlohmann/.*',
    'METIS': r'metis\.h',
    'OpenBLAS': r'(openblas/)?(cblas|lapacke)\.h',
    'OpenVINO': r'openvino/.*',
    'PCRE2': r'pcre2\w*\.h',
    'expected': r'tl/.*',
    'fmt': r'fmt/.*',
    'httplib': r'httplib\.h',
    'libedit': r'(editline/)?(readline|histedit)\.h',
    'liburing': r'liburing\.h|liburing/.*',
}
TEST_ONLY = r'(gtest|gmock)/.*'
ALLOWED_IN_TESTS = ('JSON',)

# Headers of the C library, the compiler and the kernel that have a dot in the
# name; C++'s own have none.
SYSTEM_FOLDERS = r'(sys|linux|asm|arpa|net|netinet)/.*'
SYSTEM_HEADERS = frozenset('''
    aio.h assert.h cpuid.h ctype.h dirent.h dlfcn.h elf.h endian.h errno.h
    execinfo.h fcntl.h fenv.h float.h getopt.h inttypes.h limits.h link.h
    locale.h malloc.h math.h netdb.h poll.h pthread.h pwd.h sched.h semaphore.h
    setjmp.h signal.h spawn.h stdarg.h stddef.h stdint.h stdio.h stdlib.h
    string.h strings.h syscall.h termios.h time.h ucontext.h unistd.h wchar.h
    arm_acle.h arm_neon.h immintrin.h x86intrin.h'''.split())

# x_test.cc, and the headers that tests share: testing.h, test_folder.h.
TEST_FILE = re.compile(r'(tests/.*|.*/(\w+_)?test(ing)?(_\w+)?\.(h|cc))')

# All that a kernel file may include: nvcc is slow on more, or stops at it.
KERNEL_FILE = re.compile(r'src/kernels/.*\.cu')
KERNEL_INCLUDE = re.compile(r'cstdint|cstddef|tensor/blocks\.h|kernels/cuda/.*')
# Rooms that may be included where the table says so, and linked by tests alone.
LINKED_BY_TESTS = frozenset(['cuda_on_host'])

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TC_ROOM = re.compile(r'tc_room\(\s*(\w+)([^)]*)\)')


@dataclasses.dataclass
class Room:
    level: int
    line: int
    may_use: str
    third_party: frozenset
    allowed: frozenset = frozenset()


def parse_table(tree):
    """The rooms by name, and what is wrong with the table itself."""
    rooms, violations = {}, []

    def complain(line, message):
        violations.append(Violation(TABLE_PATH, line, message))

    in_table = False
    for number, line in enumerate(tree.lines(TABLE_PATH), 1):
        cells = [c.strip() for c in line.strip().strip('|').split('|')]
        if cells == TABLE_HEAD:
            in_table = True
        elif not line.startswith('|'):
            in_table = False
        elif in_table and not set(line) <= set('|-: '):
            if len(cells) != len(TABLE_HEAD) or not cells[0].isdigit():
                complain(number, 'a row of the table of rooms needs '
                         f'{len(TABLE_HEAD)} cells and a level')
                continue
            name = cells[1].strip('`').rstrip('/')
            names = frozenset(n for n in re.split(r',\s*', cells[4]) if n)
            for unknown in sorted(names - set(THIRD_PARTY)):
                complain(number, f'third party {unknown!r} is not in '
                         'THIRD_PARTY of tools/rule_layers.py')
            if name in rooms:
                complain(number, f'room {name} has two rows')
            rooms[name] = Room(int(cells[0]), number, cells[3], names)
    if not rooms:
        complain(0, 'no table of rooms')
    for name, room in rooms.items():
        room.allowed = _expand(name, room, rooms, complain)
    return rooms, violations


def _expand(name, room, rooms, complain):
    """The rooms that the `may use` cell names; complains about bad ones."""
    cell = room.may_use
    if cell in ('', 'std'):
        return frozenset()
    if cell == 'all':
        return frozenset(rooms) - {name}
    match = re.fullmatch(r'levels (\d+)-(\d+)(?: except ([\w, ]+))?', cell)
    if match:
        low, high = int(match[1]), int(match[2])
        excepted = set(re.findall(r'\w+', match[3] or ''))
        allowed = {n for n, r in rooms.items() if low <= r.level <= high}
        unknown = excepted - set(rooms)
        allowed -= excepted
    else:
        allowed = set(cell.split())
        unknown = allowed - set(rooms)
    for other in sorted(unknown):
        complain(room.line, f'{name} names {other}, which has no row')
    for other in sorted(allowed & set(rooms)):
        if rooms[other].level >= room.level:
            complain(room.line, f'{name} (level {room.level}) may not use '
                     f'{other} (level {rooms[other].level})')
    return frozenset(allowed & set(rooms))


def third_party_of(header):
    """The table's name for a header; None for the system's; '' if unknown."""
    for name, pattern in THIRD_PARTY.items():
        if re.fullmatch(pattern, header):
            return name
    if '.' not in header and '/' not in header:
        return None
    if header in SYSTEM_HEADERS or re.fullmatch(SYSTEM_FOLDERS, header):
        return None
    return ''


def check(tree):
    rooms, violations = parse_table(tree)
    everywhere = frozenset().union(
        *(r.third_party for r in rooms.values() if r.level == 0))
    files = set(tree.files)
    for path in tree.sources():
        parts = path.split('/')
        is_test = bool(TEST_FILE.fullmatch(path))
        if parts[0] == 'tests':
            allowed, libraries = frozenset(rooms), frozenset()
        elif len(parts) < 3 or parts[1] not in rooms:
            violations.append(Violation(
                path, 0, f'not in a room of {TABLE_PATH}'))
            continue
        else:
            allowed = rooms[parts[1]].allowed | {parts[1]}
            libraries = rooms[parts[1]].third_party
        libraries |= everywhere
        if is_test:
            libraries |= set(ALLOWED_IN_TESTS)
        for number, line in enumerate(tree.lines(path), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            message = _check_include(match[1], match[2], allowed, libraries,
                                     is_test, rooms, files)
            if KERNEL_FILE.fullmatch(path) and not message and (
                    not KERNEL_INCLUDE.fullmatch(match[2])):
                message = (f'a kernel file includes no {match[2]}: '
                           'CONTRIBUTING.md, "A CUDA kernel"')
            if message:
                violations.append(Violation(path, number, message))
    return violations + _check_links(tree, rooms)


def _check_include(bracket, header, allowed, libraries, is_test, rooms, files):
    """What is wrong with one include; None if nothing."""
    if re.fullmatch(TEST_ONLY, header):
        return None if is_test else f'{header} belongs to tests only'
    name = third_party_of(header)
    if name:
        return (None if name in libraries
                else f'{name} ({header}) is not allowed here')
    if bracket == '<':
        return None if name is None else (
            f'unknown header <{header}>: name it in tools/rule_layers.py')
    room = header.split('/')[0]
    if 'src/' + header not in files:
        return f'"{header}" is no file under src/'
    if TEST_FILE.fullmatch('src/' + header) and not is_test:
        return f'{header} belongs to tests only'
    if room not in rooms:
        return f'room {room} is not in {TABLE_PATH}'
    return None if room in allowed else f'room {room} is not allowed here'


def _check_links(tree, rooms):
    """The same table for the rooms that CMake links."""
    violations = []
    for path in tree.files:
        if not re.fullmatch(r'src/\w+/CMakeLists\.txt', path):
            continue
        for match in TC_ROOM.finditer(tree.text(path) or ''):
            name, words = match[1], match[2].split()
            for keyword in ('LIBS', 'FUZZED'):
                if keyword in words:
                    words = words[:words.index(keyword)]
            linked = words[words.index('DEPS') + 1:] if 'DEPS' in words else []
            for other in linked:
                if name in rooms and (other not in rooms[name].allowed
                                      or other in LINKED_BY_TESTS):
                    violations.append(Violation(
                        path, 0, f'{name} may not link {other}'))
    return violations
