/**
 * Pure: the seccomp filter of the sandbox, as classic BPF for the kernel (`struct sock_filter[]`, little endian).
 *
 * 1. Calls that reach into other processes, the kernel or its mounts, and calls that make namespaces, fail with EPERM.
 * 2. Sockets other than unix and IP ones fail; `clone3`, whose flags a filter cannot read, fails as an unknown call.
 * 3. Disk space is taken by writing only. Calls that reserve space fail as unsupported: no file size limit holds for them,
 *    and one call can fill a disk. Programs then write instead, and the quota counts that.
 *
 * A system call of another architecture kills the process, because its numbers mean other calls.
 */

/** Constants of a machine: its audit architecture, and its system call numbers. */
interface Machine {
  readonly audit: number;
  /** System calls from this number on belong to another architecture (x32); absent: there are none. */
  readonly foreignFrom?: number;
  readonly clone: number;
  readonly clone3: number;
  readonly socket: number;
  readonly ioctl: number;
  readonly fallocate: number;
  readonly refused: readonly number[];
}

/** Refused system calls that have the same number on every machine. */
const REFUSED_EVERYWHERE = [
  ...[425, 426, 427], // io_uring_setup, _enter, _register
  // open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, open_tree_attr
  ...[428, 429, 430, 431, 432, 433, 442, 467],
  ...[438, 440, 443, 447], // pidfd_getfd, process_madvise, quotactl_fd, memfd_secret
];

const MACHINES: Readonly<Record<string, Machine>> = {
  x64: {
    audit: 0xc000003e,
    foreignFrom: 0x40000000,
    clone: 56,
    clone3: 435,
    socket: 41,
    ioctl: 16,
    fallocate: 285,
    refused: [
      ...REFUSED_EVERYWHERE,
      ...[101, 310, 311, 312], // ptrace, process_vm_readv, process_vm_writev, kcmp
      ...[165, 166, 155, 161], // mount, umount2, pivot_root, chroot
      ...[272, 308], // unshare, setns
      ...[321, 298, 323, 300], // bpf, perf_event_open, userfaultfd, fanotify_init
      ...[248, 249, 250], // add_key, request_key, keyctl
      ...[303, 304, 212, 180], // name_to_handle_at, open_by_handle_at, lookup_dcookie, nfsservctl
      ...[175, 313, 176, 246, 320, 169], // init_module, finit_module, delete_module, kexec_load, kexec_file_load, reboot
      ...[167, 168, 163, 179, 103, 153], // swapon, swapoff, acct, quotactl, syslog, vhangup
      ...[164, 227, 159, 305, 170, 171], // settimeofday, clock_settime, adjtimex, clock_adjtime, sethostname, setdomainname
      ...[172, 173, 154], // iopl, ioperm, modify_ldt
    ],
  },
  arm64: {
    audit: 0xc00000b7,
    clone: 220,
    clone3: 435,
    socket: 198,
    ioctl: 29,
    fallocate: 47,
    refused: [
      ...REFUSED_EVERYWHERE,
      ...[117, 270, 271, 272], // ptrace, process_vm_readv, process_vm_writev, kcmp
      ...[40, 39, 41, 51], // mount, umount2, pivot_root, chroot
      ...[97, 268], // unshare, setns
      ...[280, 241, 282, 262], // bpf, perf_event_open, userfaultfd, fanotify_init
      ...[217, 218, 219], // add_key, request_key, keyctl
      ...[264, 265, 18, 42], // name_to_handle_at, open_by_handle_at, lookup_dcookie, nfsservctl
      ...[105, 273, 106, 104, 294, 142], // init_module, finit_module, delete_module, kexec_load, kexec_file_load, reboot
      ...[224, 225, 89, 60, 116, 58], // swapon, swapoff, acct, quotactl, syslog, vhangup
      ...[170, 112, 171, 266, 161, 162], // settimeofday, clock_settime, adjtimex, clock_adjtime, sethostname, setdomainname
    ],
  },
};

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const NEW_NAMESPACE = 0x7e020000;
/** Allowed socket families: Unix, IPv4 and IPv6. */
const SOCKET_FAMILIES = [1, 2, 10];
/** ioctl requests that insert input into a terminal: TIOCSTI and TIOCLINUX. */
const TYPING_REQUESTS = [0x5412, 0x541c];
/** ioctl requests with the effect of fallocate: FS_IOC_RESVSP, FS_IOC_RESVSP64 and FS_IOC_ZERO_RANGE. */
const RESERVING_REQUESTS = [0x40305828, 0x4030582a, 0x40305839];

const LOAD = 0x20;
const JUMP_IF_EQUAL = 0x15;
const JUMP_IF_AT_LEAST = 0x35;
const JUMP_IF_ANY_BIT = 0x45;
const RETURN = 0x06;

const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const errno = (code: number): number => 0x00050000 | code;
const EPERM = 1;
const ENOSYS = 38;
const EOPNOTSUPP = 95;
const EAFNOSUPPORT = 97;

/** Offsets in `struct seccomp_data`; for an argument, of its lower half. */
const NUMBER_AT = 0;
const ARCHITECTURE_AT = 4;
const argumentAt = (index: number): number => 16 + 8 * index;

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

/** Returns the filter for a machine by its Node name; undefined for an unknown machine. */
export function seccompFilter(machine: string): Buffer | undefined {
  const known = MACHINES[machine];
  return known && encoded(program(known));
}

function program(machine: Machine): Instruction[] {
  return [
    [LOAD, 0, 0, ARCHITECTURE_AT],
    [JUMP_IF_EQUAL, 1, 0, machine.audit],
    [RETURN, 0, 0, KILL],
    [LOAD, 0, 0, NUMBER_AT],
    ...(machine.foreignFrom === undefined
      ? []
      : ([
          [JUMP_IF_AT_LEAST, 0, 1, machine.foreignFrom],
          [RETURN, 0, 0, KILL],
        ] as const)),
    ...machine.refused.flatMap((number) => onValue(number, [[RETURN, 0, 0, errno(EPERM)]])),
    ...onValue(machine.clone3, [[RETURN, 0, 0, errno(ENOSYS)]]),
    ...onValue(machine.fallocate, [[RETURN, 0, 0, errno(EOPNOTSUPP)]]),
    ...onValue(machine.clone, [
      [LOAD, 0, 0, argumentAt(0)],
      [JUMP_IF_ANY_BIT, 0, 1, NEW_NAMESPACE],
      [RETURN, 0, 0, errno(EPERM)],
      [RETURN, 0, 0, ALLOW],
    ]),
    ...onValue(machine.socket, [
      [LOAD, 0, 0, argumentAt(0)],
      ...SOCKET_FAMILIES.flatMap((family) => onValue(family, [[RETURN, 0, 0, ALLOW]])),
      [RETURN, 0, 0, errno(EAFNOSUPPORT)],
    ]),
    ...onValue(machine.ioctl, [
      [LOAD, 0, 0, argumentAt(1)],
      ...TYPING_REQUESTS.flatMap((request) => onValue(request, [[RETURN, 0, 0, errno(EPERM)]])),
      ...RESERVING_REQUESTS.flatMap((request) => onValue(request, [[RETURN, 0, 0, errno(EOPNOTSUPP)]])),
      [RETURN, 0, 0, ALLOW],
    ]),
    [RETURN, 0, 0, ALLOW],
  ];
}

/** Executes `then`, which returns, if the loaded value equals `value`. */
function onValue(value: number, then: readonly Instruction[]): Instruction[] {
  return [[JUMP_IF_EQUAL, 0, then.length, value], ...then];
}

const INSTRUCTION_BYTES = 8;

function encoded(instructions: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(instructions.length * INSTRUCTION_BYTES);
  for (const [index, [code, ifTrue, ifFalse, value]] of instructions.entries()) {
    const at = index * INSTRUCTION_BYTES;
    bytes.writeUInt16LE(code, at);
    bytes.writeUInt8(ifTrue, at + 2);
    bytes.writeUInt8(ifFalse, at + 3);
    bytes.writeUInt32LE(value, at + 4);
  }
  return bytes;
}
