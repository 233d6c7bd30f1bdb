/**
 * Starts an MCP server as a process and connects to it over its standard streams. Output written before its end is read. A
 * line that does not begin with a brace is no message and costs nothing: some servers print other things.
 *
 * 1. The connection ends with the started process, even if others hold its streams: a server's children may outlive it.
 * 2. A server leaves no process behind: it leads a process group, and the rest of the group is killed with it. The started
 *    process may only be a launcher, as with `npx server` or `sh -c server`.
 *    If this process dies, a guardian kills the group two seconds later.
 * 3. The event loop serves others between two pieces of output. After the begin of the end nothing is read any more.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { type Clock, within } from "../../../shared/clock.ts";
import { messageOf, ToolFailure } from "../../../shared/errors.ts";
import { LineSplitter } from "./lines.ts";
import { PartCounter, type ResponseLimits } from "./response-limit.ts";

/** Time for a server to end by itself, and again after SIGTERM. */
const GRACE_MS = 2_000;
/** Time for reading a server's output after its end: a process that left its group may hold its streams. */
const DRAIN_MS = 500;

/**
 * Program of the guardian: it reads our end of its input, which closes when we die, and then kills the group `$0` unless it ends
 * by itself. It looks every 100 ms, so that it never kills a later group of that number.
 */
const GUARD = `read -r _
n=0
while [ $n -lt ${GRACE_MS / 100} ]; do
  kill -s 0 -- "-$0" || exit
  sleep 0.1
  n=$((n+1))
done
kill -s KILL -- "-$0"`;

/** Options of the server process. */
export interface ServerProcessOptions {
  readonly command: string;
  readonly args: readonly string[];
  /** The server's whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
  /** Limits of one message of the server. */
  readonly limits: ResponseLimits;
  readonly clock: Clock;
  /** Called with the reason for a message beyond a limit; ends the connection. */
  readonly refused: (why: string) => void;
  /** Receives the server's standard error. */
  readonly complained: (bytes: Buffer) => void;
}

/** See the module's header. */
export class ProcessTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: <T extends JSONRPCMessage>(message: T) => void;
  readonly #options: ServerProcessOptions;
  #child: ChildProcess | undefined;
  #closing: Promise<void> | undefined;
  /** Resolves when the server has read what it was sent, or has ended; undefined while no message waits. */
  #drained: Promise<void> | undefined;
  #tellClosed: () => void = () => undefined;
  /** Resolves when the server's streams have closed. */
  readonly #closed = new Promise<void>((resolve) => {
    this.#tellClosed = resolve;
  });

  constructor(options: ServerProcessOptions) {
    this.#options = options;
  }

  /** Rejects with the system's error if the process cannot be started. Starts none after a {@link close}. */
  async start(): Promise<void> {
    const { deserializeMessage } = await import("@modelcontextprotocol/client");
    // The close that came before would not end it.
    if (this.#closing !== undefined) throw new ToolFailure("It was given up before it was started.");
    const { command, args, env, cwd, clock, complained } = this.#options;
    const child = spawn(command, args, { env, cwd, detached: true, stdio: "pipe" });
    this.#child = child;
    const started = new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", reject);
    });
    // Without a free file descriptor the child has no streams.
    if (child.pid === undefined) return started;
    const counter = new PartCounter("line");
    const splitter = new LineSplitter();
    const failed = (error: Error) => this.onerror?.(error);
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on("error", failed);
    child.stdout.on("data", (bytes: Buffer) => {
      const problem = counter.countChunk(bytes, this.#options.limits);
      if (problem !== undefined) return this.#options.refused(problem);
      this.#read(splitter.push(bytes), deserializeMessage);
      // A pipe may bring two megabytes before the event loop goes on.
      child.stdout.pause();
      setImmediate(() => child.stdout.resume());
    });
    child.stderr.on("data", complained);
    const guardian = startGuardian(child.pid);
    child.once("exit", () => {
      signalGroup(child, "SIGKILL");
      guardian.kill("SIGKILL");
      const limit = clock.timeout(DRAIN_MS, () => {
        for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      });
      child.once("close", () => limit.cancel());
    });
    child.once("close", () => {
      this.#tellClosed();
      this.onclose?.();
    });
    await started;
  }

  /** Resolves when the system has accepted the message, or the server has ended. */
  async send(message: JSONRPCMessage): Promise<void> {
    const { serializeMessage } = await import("@modelcontextprotocol/client");
    const stdin = this.#child?.stdin;
    if (!stdin || stdin.write(serializeMessage(message))) return;
    // One listener for all that wait: from the eleventh on Node warns of a leak.
    this.#drained ??= Promise.race([
      new Promise<void>((resolve) => stdin.once("drain", resolve)),
      this.#closed,
    ]).finally(() => {
      this.#drained = undefined;
    });
    await this.#drained;
  }

  /** Ends the server: closes its input, then sends SIGTERM, then SIGKILL. Takes 6 s at most. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    const child = this.#child;
    if (child?.pid === undefined) return;
    const { clock } = this.#options;
    child.stdin?.end();
    for (const signal of ["SIGTERM", "SIGKILL", undefined] as const) {
      const isOver = await within(
        clock,
        GRACE_MS,
        this.#closed.then(() => true),
      );
      if (isOver || signal === undefined) return;
      signalGroup(child, signal);
    }
  }

  #read(lines: Iterable<string>, parse: (line: string) => JSONRPCMessage): void {
    for (const line of lines) {
      if (this.#closing !== undefined) return;
      if (!MAY_BE_MESSAGE.test(line)) continue;
      try {
        this.onmessage?.(parse(line));
      } catch (error) {
        this.onerror?.(asError(error));
      }
    }
  }
}

/** Starts the guardian of a process group. Without a free file descriptor there is none, and the server only loses its input. */
function startGuardian(group: number): ChildProcess {
  const guardian = spawn("/bin/sh", ["-c", GUARD, String(group)], {
    env: { PATH: "/usr/bin:/bin" },
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guardian.on("error", () => undefined);
  guardian.unref();
  return guardian;
}

const MAY_BE_MESSAGE = /^\s*\{/;

function asError(error: unknown): Error {
  return error instanceof Error ? error : new ToolFailure(messageOf(error));
}

/** Signals the group even after the process itself has ended, because others of the group may continue. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // The group has ended.
  }
}
