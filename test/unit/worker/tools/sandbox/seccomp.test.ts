/** Guarantee: the filter of the sandbox refuses what reaches out of it, on each machine by that machine's numbers, and lets the rest pass. */
import { describe, expect, test } from "vitest";
import { seccompFilter } from "../../../../../src/worker/tools/sandbox/seccomp.ts";

/** Numbers of x64 and arm64, as the headers of the kernel have them (unistd_64.h and asm-generic/unistd.h). */
const REFUSED: Record<string, readonly [x64: number, arm64: number]> = {
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  quotactl_fd: [443, 443],
  open_tree_attr: [467, 467],
  pidfd_getfd: [438, 438],
  process_madvise: [440, 440],
  memfd_secret: [447, 447],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  kcmp: [312, 272],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  unshare: [272, 97],
  setns: [308, 268],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  fanotify_init: [300, 262],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  lookup_dcookie: [212, 18],
  nfsservctl: [180, 42],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  quotactl: [179, 60],
  syslog: [103, 116],
  vhangup: [153, 58],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  adjtimex: [159, 171],
  clock_adjtime: [305, 266],
  sethostname: [170, 161],
  setdomainname: [171, 162],
};
/** Calls of x64 that arm64 lacks. */
const REFUSED_ON_X64 = { iopl: 172, ioperm: 173, modify_ldt: 154 };
const MACHINES = [
  { name: "x64", audit: 0xc000003e, at: 0, clone: 56, clone3: 435, socket: 41, ioctl: 16, fallocate: 285 },
  { name: "arm64", audit: 0xc00000b7, at: 1, clone: 220, clone3: 435, socket: 198, ioctl: 29, fallocate: 47 },
] as const;
/** read, write, openat, execve, getpid, futex and exit_group. */
const ORDINARY = [
  [0, 1, 257, 59, 39, 202, 231],
  [63, 64, 56, 221, 172, 98, 94],
] as const;

const ALLOW = "allow";
const KILL = "kill";
const [EPERM, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT] = [1, 38, 95, 97];

/** What the kernel does with a call: it runs the filter as classic BPF. */
function verdict(machine: string, audit: number, number: number, args: readonly number[] = []) {
  const filter = seccompFilter(machine) ?? Buffer.alloc(0);
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number, 0);
  data.writeUInt32LE(audit, 4);
  for (const [i, value] of args.entries()) data.writeUInt32LE(value, 16 + 8 * i);
  let loaded = 0;
  for (let at = 0; at < filter.length; at += 8) {
    const [code, value] = [filter.readUInt16LE(at), filter.readUInt32LE(at + 4)];
    if (code === 0x06) {
      if (value === 0x7fff0000) return ALLOW;
      return value === 0x80000000 ? KILL : value - 0x00050000;
    }
    if (code === 0x20) loaded = data.readUInt32LE(value);
    else {
      const holds = { 21: loaded === value, 53: loaded >= value, 69: (loaded & value) !== 0 }[code];
      if (holds === undefined) throw new TypeError(`the instruction ${code} is unknown`);
      at += 8 * filter.readUInt8(at + (holds ? 2 : 3));
    }
  }
  throw new RangeError("the filter ends without a verdict");
}

describe.each(MACHINES)("on $name", ({ name, audit, at, clone, clone3, socket, ioctl, fallocate }) => {
  const of = (number: number, ...args: number[]) => verdict(name, audit, number, args);

  test.each(Object.entries(REFUSED))("%s is refused", (_call, numbers) => {
    expect(of(numbers[at])).toBe(EPERM);
  });

  test("what programs need passes", () => {
    for (const number of ORDINARY[at]) expect(of(number), `${number}`).toBe(ALLOW);
  });

  test("another architecture's call ends the process", () => {
    expect(verdict(name, 0x40000003, 0)).toBe(KILL);
    for (const other of MACHINES) if (other.name !== name) expect(verdict(name, other.audit, 0)).toBe(KILL);
  });

  test("processes and threads are made, namespaces are not", () => {
    // SIGCHLD, and what a thread of glibc is made with.
    for (const flags of [0x11, 0x003d0f00]) expect(of(clone, flags)).toBe(ALLOW);
    // CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
    for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
      expect(of(clone, 0x11 | flag), flag.toString(16)).toBe(EPERM);
    expect(of(clone3)).toBe(ENOSYS);
  });

  test("sockets are unix and IP ones only", () => {
    for (const family of [1, 2, 10]) expect(of(socket, family)).toBe(ALLOW);
    // None, netlink, packet, ALG, vsock and XDP.
    for (const family of [0, 3, 9, 11, 16, 17, 38, 40, 44]) expect(of(socket, family)).toBe(EAFNOSUPPORT);
  });

  test("a terminal is not typed into, and no room on a disk is taken without writing", () => {
    expect(of(fallocate, 3)).toBe(EOPNOTSUPP);
    for (const request of [0x5412, 0x541c]) expect(of(ioctl, 3, request)).toBe(EPERM);
    for (const request of [0x40305828, 0x4030582a, 0x40305839])
      expect(of(ioctl, 3, request)).toBe(EOPNOTSUPP);
    // TCGETS and TIOCGWINSZ.
    for (const request of [0x5401, 0x5413]) expect(of(ioctl, 3, request)).toBe(ALLOW);
  });
});

test.each(Object.entries(REFUSED_ON_X64))("%s is refused on x64", (_call, number) => {
  expect(verdict("x64", 0xc000003e, number)).toBe(EPERM);
});

test("calls of x32 end the process", () => {
  expect(verdict("x64", 0xc000003e, 0x40000000)).toBe(KILL);
  expect(verdict("x64", 0xc000003e, 0x3fffffff)).toBe(ALLOW);
});

test("a machine whose numbers are not known has no filter", () => {
  for (const machine of ["riscv64", "ia32"]) expect(seccompFilter(machine)).toBeUndefined();
});
