/**
 * One process with bounded output and a certain end.
 *
 * `shell.ts` is the program that reports "ready" and reads the command.
 *
 * 1. The beginning and the end of the output are kept. The process is killed beyond a limit of the output, and beyond
 *    another limit of {@link REPORT}, because endless reading blocks all other runs.
 * 2. The process inherits only the descriptors it is given: those with which this process was started are replaced by
 *    /dev/null.
 * 3. Its environment is the given one.
 * 4. It leads a process group. A guardian in that group kills it whenever this process dies. bubblewrap alone binds its life
 *    to ours only once it has begun, and its child to its own only once all is mounted.
 * 5. The command is sent when the process reports that it is ready. If its launcher has died meanwhile, it reads end of
 *    file.
 * 6. A process in a namespace of its own has ended when the first process of that namespace has: the kernel ends that one last.
 *    Its launcher and its output end before, with others still running.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import type { Clock } from "../../../shared/clock.ts";
import { onAbort } from "../../../shared/stop-signal.ts";
import type { Killed } from "./runner.ts";

/** A process to run. */
export interface ProcessOptions {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** True if it writes to descriptor {@link INFO} which process is the first of its namespace, as bubblewrap does. Default false. */
  readonly ownNamespace?: boolean;
  /** Text that it reads from descriptor {@link COMMAND} once it has written a line to descriptor {@link REPORT}. */
  readonly command: string;
  /** Inputs on descriptors {@link FIRST_INPUT}, …; each ends after its bytes. At most three. */
  readonly inputs: readonly (string | Buffer)[];
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly clock: Clock;
}

/** Result of a process that has ended. */
export interface ProcessOutcome {
  readonly output: string;
  /** Text written to descriptor {@link REPORT}, at most 8 KB. */
  readonly report: string;
  readonly exitCode?: number;
  readonly killed?: Killed;
}

/** Head and tail have fewer bytes than a tool's result has characters: it shows both, and the notes behind them. */
const HEAD_BYTES = 20 * 1024;
const TAIL_BYTES = 26 * 1024;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
/** Twice as long as any path. */
const MAX_REPORT_BYTES = 8 * 1024;
/** The descriptor on which a process reports that it is ready, and at its end its working directory. */
export const REPORT = 3;
/** The descriptor from which the process reads the command. */
export const COMMAND = 4;
/** The descriptor on which bubblewrap writes JSON with `child-pid`. No process inside the sandbox has it. */
export const INFO = 5;
/** The first descriptor of the other inputs. */
export const FIRST_INPUT = 6;
/** Time for which the streams may stay open after the end: a process that left the group may hold them. */
const DRAIN_MS = 500;
/** Interval between two looks at the first process of a namespace. */
const END_LOOK_MS = 2;
/** Limit of those looks: a process that waits for a broken device stays, killed, until the device answers. */
const MAX_END_MS = 10_000;
const MAX_INFO_BYTES = 8 * 1024;
/** Highest descriptor that is replaced. */
const MAX_DESCRIPTOR = 1_024;

/**
 * Starts a guardian that reads our end of the standard input, which closes when we die, and then kills its own group.
 * Nothing is written there. The OOM score makes the kernel kill the command rather than this process if memory runs out.
 * Unless we are root, a command can lower it again to our own. If the file is missing, the score stays unchanged.
 * The command gets the lowest priority: it may start hundreds of processes, and with ours each would get as much of a processor
 * as this one, whose event loop serves all other runs.
 */
const GUARD = `exec 9<&0 </dev/null
{ exec >/dev/null 2>&1 3>&- 4<&- 5<&- 6<&- 7<&- 8<&-; read -r _ <&9; kill -9 0; } &
{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null
exec nice -n 19 "$@" 9<&-`;

/** Runs a process to its end. Rejects with the system's error if the process cannot be started. */
export function runProcess(options: ProcessOptions): Promise<ProcessOutcome> {
  const nothing = openSync("/dev/null", "r+");
  let child: ChildProcess;
  try {
    child = spawn("/bin/sh", ["-c", GUARD, "sh", options.file, ...options.args], {
      cwd: options.cwd,
      env: { ...options.env },
      detached: true,
      stdio: descriptors(options, nothing),
    });
  } finally {
    closeSync(nothing);
  }
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    // A child that could not start emits no exit, and without a free file descriptor it has no streams.
    if (child.pid !== undefined) watch(child, options, resolve);
  });
}

function descriptors({ inputs, ownNamespace }: ProcessOptions, nothing: number): ("pipe" | number)[] {
  const given: ("pipe" | number)[] = Array.from({ length: FIRST_INPUT + inputs.length }, () => "pipe");
  if (!ownNamespace) given[INFO] = nothing;
  const last = Math.max(given.length - 1, ...inherited());
  return Array.from({ length: last + 1 }, (_, descriptor) => given[descriptor] ?? nothing);
}

/** Returns the open descriptors of this process. Most close in a child by themselves, but nothing tells which. */
function inherited(): number[] {
  try {
    return readdirSync("/proc/self/fd")
      .map(Number)
      .filter((descriptor) => descriptor <= MAX_DESCRIPTOR);
  } catch {
    return [];
  }
}

function watch(
  child: ChildProcess,
  { command, inputs, signal, timeoutMs, clock }: ProcessOptions,
  resolve: (outcome: ProcessOutcome) => void,
): void {
  let killed: Killed | undefined;
  const kill = (why: Killed): void => {
    killed ??= why;
    killTree(child);
  };
  const output = createKeeper(HEAD_BYTES, TAIL_BYTES);
  const report = createKeeper(MAX_REPORT_BYTES, 0);
  const info = createKeeper(MAX_INFO_BYTES, 0);
  const stdio: readonly (Readable | Writable | null | undefined)[] = child.stdio;
  const [, out, errors, reported] = stdio;
  const keepIn = (keeper: Keeper, mostBytes: number) => (bytes: Buffer) => {
    if (keeper.add(bytes) > mostBytes) kill("output");
  };
  const keep = keepIn(output, MAX_OUTPUT_BYTES);
  listen(out, keep);
  listen(errors, keep);
  listen(reported, keepIn(report, MAX_REPORT_BYTES));
  listen(stdio[INFO], (bytes) => void info.add(bytes));
  sendWhenReady(child, reported, command);
  for (const [index, input] of inputs.entries()) feed(stdio[FIRST_INPUT + index], input);

  const forget = onAbort(signal, () => kill("stopped"));
  let isTimeUp = false;
  const timeUp = () => {
    isTimeUp = true;
    // A command whose death is not reported yet keeps its exit code. If only its first thread has ended, the others go on.
    if (hasDied(child)) killTree(child);
    else kill("timeout");
  };
  const timers = [clock.timeout(timeoutMs, timeUp)];
  child.once("exit", () => {
    killTree(child);
    timers.push(clock.timeout(DRAIN_MS, () => closeStreams(child)));
  });
  child.once("close", (exitCode) => {
    for (const timer of timers) timer.cancel();
    forget();
    const why = killed ?? (isTimeUp ? "timeout" : "stopped");
    const end = killed === undefined && exitCode !== null ? { exitCode } : { killed: why };
    const outcome = { output: output.text(), report: report.text(), ...end };
    void endOfNamespace(info.text(), clock).then(() => resolve(outcome));
  });
}

/** Waits until the first process of a namespace has ended; at once if the launcher ended before it made one. */
async function endOfNamespace(info: string, clock: Clock): Promise<void> {
  const pid = /"child-pid": (\d+)/.exec(info)?.[1];
  if (pid === undefined) return;
  const limitMs = clock.monotonicMs() + MAX_END_MS;
  while (/^[^ZX]/.test(stateOf(pid)) && clock.monotonicMs() < limitMs) await clock.sleep(END_LOOK_MS);
}

/** Kills the group even after the process itself has ended, because others of the group may continue. */
function killTree(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  } catch {
    // The group has ended.
  }
}

function closeStreams(child: ChildProcess): void {
  for (const stream of child.stdio) stream?.destroy();
}

function listen(stream: Readable | Writable | null | undefined, take: (bytes: Buffer) => void): void {
  stream?.on("error", () => undefined);
  stream?.on("data", take);
}

/** Writes an input. Data that the process does not read is lost: it ended or closed the descriptor. */
function feed(stream: Readable | Writable | null | undefined, input: string | Buffer): void {
  if (!stream || !("end" in stream)) return;
  stream.on("error", () => undefined);
  stream.end(input);
}

/** Sends the command after the first output of the process on {@link REPORT}, which means ready. */
function sendWhenReady(
  child: ChildProcess,
  reported: Readable | Writable | null | undefined,
  command: string,
): void {
  reported?.once("data", () => {
    // The event loop reports a death after the data of the same round; on a busy machine, in a later round.
    setImmediate(() => {
      if (!hasDied(child)) feed(child.stdio[COMMAND], command);
    });
  });
}

/** Checks whether a child has died. On Linux the kernel's process entry shows it before the event loop reports it. */
export function hasDied({
  pid,
  exitCode,
  signalCode,
}: Pick<ChildProcess, "pid" | "exitCode" | "signalCode">): boolean {
  return exitCode !== null || signalCode !== null || /^[ZX]/.test(stateOf(pid));
}

/** Returns the state of a process as one letter of Linux; empty if there is no such process, or no `/proc`. */
function stateOf(pid: number | string | undefined): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.charAt(stat.lastIndexOf(")") + 2);
  } catch {
    return "";
  }
}

interface Keeper {
  /** Returns the number of bytes so far. */
  add(bytes: Buffer): number;
  text(): string;
}

/** Keeps the first and the last bytes of a stream. */
function createKeeper(headBytes: number, tailBytes: number): Keeper {
  const head: Buffer[] = [];
  let tail: Buffer[] = [];
  let [seen, inHead, inTail] = [0, 0, 0];
  return {
    add(bytes) {
      seen += bytes.length;
      const toHead = bytes.subarray(0, Math.max(0, headBytes - inHead));
      inHead += toHead.length;
      if (toHead.length > 0) head.push(toHead);
      const rest = bytes.subarray(toHead.length);
      if (rest.length > 0) tail.push(rest);
      inTail += rest.length;
      if (inTail > 2 * tailBytes + 64 * 1024) {
        const last = Buffer.concat(tail);
        tail = [Buffer.from(last.subarray(Math.max(0, last.length - tailBytes)))];
        inTail = tail[0]?.length ?? 0;
      }
      return seen;
    },
    text() {
      const kept = Buffer.concat(tail);
      const end = kept.subarray(Math.max(0, kept.length - tailBytes));
      const begin = Buffer.concat(head);
      if (seen === begin.length + end.length) return Buffer.concat([begin, end]).toString("utf8");
      const [first, last] = [begin.subarray(0, wholeLength(begin)), end.subarray(wholeStart(end))];
      const left = seen - first.length - last.length;
      return `${first.toString("utf8")}\n[${left} bytes left out here]\n${last.toString("utf8")}`;
    },
  };
}

const MAX_CHARACTER_BYTES = 4;

/** Returns true for a byte inside a character of UTF-8. */
function continues(byte = 0): boolean {
  return (byte & 0xc0) === 0x80;
}

/** Returns the length of `bytes` without a character that is cut off at their end. */
function wholeLength(bytes: Buffer): number {
  let at = bytes.length - 1;
  while (at > bytes.length - MAX_CHARACTER_BYTES && continues(bytes[at])) at--;
  const [lead = 0, taken] = [bytes[at], bytes.length - at];
  const needed = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return taken < needed ? at : bytes.length;
}

/** Returns the offset of the first whole character in `bytes`, which may begin inside one. */
function wholeStart(bytes: Buffer): number {
  let at = 0;
  while (at < MAX_CHARACTER_BYTES - 1 && continues(bytes[at])) at++;
  return at;
}
