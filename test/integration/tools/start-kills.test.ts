/** Workers and launchers killed while sandboxes start: at random points, and where nothing in the sandbox would notice. */
import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { bundled } from "../../helpers/bundle.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";

const KILLS = Number(process.env.START_KILLS ?? 6);
const STARTS = 8;
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

let base: string;
let bwrap: string;
beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), "start-"));
  chmodSync(base, 0o755);
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  // A copy of its own tells the processes of this test from those of others.
  bwrap = join(base, "bwrap");
  copyFileSync("/usr/bin/bwrap", bwrap);
  chmodSync(bwrap, 0o755);
});

interface Worker {
  readonly process: ChildProcess;
  /** What its processes have in their arguments. */
  readonly words: readonly string[];
  /** How many commands have begun. */
  begun(): number;
}

let workers = 0;
/** Starts a worker that begins {@link STARTS} commands; resolves when it does. */
async function startWorker(asNobody: boolean, program?: string): Promise<Worker> {
  // Seconds that are found again: no other run of this file has them.
  const marker = `${process.pid}${workers++}86420`;
  const root = join(base, `worker-${workers}`);
  const directories = Array.from({ length: STARTS }, (_, n) => join(root, `w${n}`));
  for (const path of [root, ...directories]) {
    mkdirSync(path);
    if (asNobody) chownSync(path, NOBODY, NOBODY);
  }
  const drop = ["/usr/bin/setpriv", "--reuid", `${NOBODY}`, "--regid", `${NOBODY}`, "--clear-groups"];
  const driver = await bundled(join(import.meta.dirname, "fixtures/start-driver.ts"));
  const [file = "", ...args] = [
    ...(asNobody ? drop : []),
    ...[process.execPath, driver],
    ...[program ?? bwrap, root, `${STARTS}`, marker, program === undefined ? "warm" : "cold"],
  ];
  const worker = spawn(file, args, {
    env: { PATH: "/usr/bin:/bin", HOME: "/tmp", TMPDIR: tmpdir() },
    stdio: ["ignore", "pipe", "inherit"],
  });
  closeAtEnd(() => void worker.kill("SIGKILL"));
  let said = "";
  await new Promise<void>((resolve, reject) => {
    worker.stdout?.on("data", (bytes: Buffer) => {
      said += bytes.toString();
      if (said.startsWith("go\n")) resolve();
      else if (said.includes("\n")) reject(new Error(said));
    });
    worker.once("exit", () => reject(new Error("the worker ended by itself")));
  });
  const begun = () => directories.filter((path) => existsSync(join(path, "begun"))).length;
  const started = { process: worker, words: [base, marker], begun };
  closeAtEnd(() => {
    for (const { pid } of processesOf(started)) spawn("kill", ["-9", `${pid}`], { stdio: "ignore" });
  });
  return started;
}

interface Found {
  pid: number;
  parent: number;
  line: string;
}

/**
 * Processes of a worker, without itself. In the middle of an exec a process has no words by which it could be known: `starting`
 * takes each such process of the machine for one of them.
 */
function processesOf({ words, process: worker }: Worker, starting = false): Found[] {
  return readdirSync("/proc").flatMap((name) => {
    const pid = Number(name);
    if (!/^\d+$/.test(name) || pid === worker.pid) return [];
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      const parent = Number(/^PPid:\s*(\d+)$/m.exec(status)?.[1]);
      // The dead and the threads of the kernel have no words either.
      const isStarting = line === "" && !/^State:\s*Z/m.test(status) && parent !== 2 && pid !== 2;
      const isOurs = (starting && isStarting) || words.some((word) => line.includes(word));
      return isOurs ? [{ pid, parent, line: line.slice(0, 200) }] : [];
    } catch {
      return [];
    }
  });
}

async function expectNoneLeft(worker: Worker): Promise<void> {
  let left: Found[] = [];
  await until(() => {
    left = processesOf(worker, true);
    return left.length === 0;
  }).catch(() => undefined);
  expect(left, left.length === 0 ? "" : everyProcess()).toEqual([]);
}

/** What runs on the machine, where it stands and what it holds open: one of them keeps what was left behind alive. */
function everyProcess(): string {
  const held = (pid: string) =>
    readdirSync(`/proc/${pid}/fd`).map((fd) => `${fd}=${readlinkSync(`/proc/${pid}/fd/${fd}`)}`);
  const lines = readdirSync("/proc").flatMap((pid) => {
    try {
      if (!/^\d+$/.test(pid)) return [];
      const [, command = "", state = ""] =
        /\((.*)\) (\S+ \d+ \d+)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8")) ?? [];
      return [
        `${pid} ${command} ${state} ${readFileSync(`/proc/${pid}/wchan`, "utf8")} ${held(pid).join(" ")}`,
      ];
    } catch {
      return [];
    }
  });
  return lines.join("\n");
}

async function kill({ process: worker }: Worker): Promise<void> {
  const gone = new Promise((resolve) => worker.once("exit", resolve));
  worker.kill("SIGKILL");
  await gone;
}

const randomTime = () => new Promise((resolve) => setTimeout(resolve, Math.random() * 60));
const mounts = () => readFileSync("/proc/self/mounts", "utf8");

/** A launcher in the place of bubblewrap, at a point of its start that a kill hits once in thousands of times. */
function launcher(name: string, program: string): string {
  const path = join(base, name);
  writeFileSync(path, `#!/bin/bash\n${program}\n`, { mode: 0o755 });
  return path;
}

const users = isRoot ? ["root", "an ordinary user"] : ["an ordinary user"];
describe.each(users)("sandboxes that start behind %s", (user) => {
  const asNobody = isRoot && user !== "root";

  it(`leave nothing behind when their worker is killed, ${KILLS} times at random`, async () => {
    const before = mounts();
    let begun = 0;
    for (let round = 0; round < KILLS; round++) {
      const worker = await startWorker(asNobody);
      // Every third kill strikes when a command works, the others also before the first one does.
      if (round % 3 === 0) await until(() => worker.begun() > 0);
      else await randomTime();
      await kill(worker);
      await expectNoneLeft(worker);
      begun += worker.begun();
    }
    expect(mounts()).toBe(before);
    expect(begun).toBeGreaterThan(0);
    expect(begun).toBeLessThan(KILLS * STARTS);
  }, 600_000);

  it("leave nothing behind when their launchers are killed at random, and the worker goes on", async () => {
    for (let round = 0; round < KILLS; round += 3) {
      const worker = await startWorker(asNobody);
      for (let killed = 0; killed < STARTS; ) {
        const launchers = processesOf(worker).filter(({ parent }) => parent === worker.process.pid);
        for (const { pid } of launchers) {
          await randomTime();
          process.kill(pid, "SIGKILL");
          killed += 1;
          const isGone = () => processesOf(worker).every((each) => each.parent !== pid && each.pid !== pid);
          await until(isGone);
        }
      }
      await expectNoneLeft(worker);
      expect(worker.process.exitCode).toBeNull();
      await kill(worker);
    }
  }, 600_000);

  it("leave nothing behind when their guardians are killed before their worker", async () => {
    const worker = await startWorker(asNobody);
    await until(() => worker.begun() === STARTS);
    const guardians = processesOf(worker).filter(({ line }) => line.startsWith("/bin/sh -c exec 9<&0"));
    expect(guardians).toHaveLength(STARTS);
    for (const { pid } of guardians) process.kill(pid, "SIGKILL");
    await until(() => processesOf(worker).every(({ pid }) => guardians.every((each) => each.pid !== pid)));
    await kill(worker);
    await expectNoneLeft(worker);
  });

  it("leave nothing behind that waits for a launcher which is dead", async () => {
    const stuck = launcher("stuck", "sleep 7386420 & trap '' TERM HUP; wait; read -r <&5");
    const worker = await startWorker(asNobody, stuck);
    await until(() => processesOf(worker).some(({ line }) => line.startsWith("/bin/bash")));
    await kill(worker);
    await expectNoneLeft(worker);
  });

  it("run no command once their launcher is dead, though they left its group before", async () => {
    const release = join(base, `release-${user.length}`);
    const late = `(while [ ! -e ${release} ]; do sleep 0.01; done; exec "\${@:4}")`;
    // The sixth field of a process is its session: its own once it has left.
    const hasLeft = `[ "$(cut -d' ' -f6 /proc/$!/stat)" = $! ]`;
    const left = launcher(
      "left",
      `setsid bash -c '${late}' late "$@" & until ${hasLeft}; do sleep 0.01; done; kill -9 $$`,
    );
    const worker = await startWorker(asNobody, left);
    // All have left, and none of their launchers lives: what a guardian leaves behind for a moment does not count.
    await until(() => {
      const found = processesOf(worker);
      const late = found.filter(({ parent, line }) => parent === 1 && line.includes(release));
      return late.length === STARTS && found.every(({ parent }) => parent !== worker.process.pid);
    });
    writeFileSync(release, "");
    const isRunning = () => processesOf(worker).some(({ line }) => line.startsWith("sleep "));
    await until(() => processesOf(worker, true).length === 0 || isRunning());
    expect(processesOf(worker)).toEqual([]);
  });
});
