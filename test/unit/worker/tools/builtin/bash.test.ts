import { execFile, execFileSync, spawn } from "node:child_process";
import { getEventListeners } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { bashTool } from "../../../../../src/worker/tools/builtin/bash.ts";
import { runTool } from "../../../../../src/worker/tools/registry.ts";
import { CUT_MARKER } from "../../../../../src/worker/tools/result-text.ts";
import { chooseRunner } from "../../../../../src/worker/tools/sandbox/choose.ts";
import type { Runner } from "../../../../../src/worker/tools/sandbox/runner.ts";
import { createUnconfined } from "../../../../../src/worker/tools/sandbox/unconfined.ts";
import type { Tool } from "../../../../../src/worker/tools/tool.ts";
import { until } from "../../../../helpers/until.ts";
import { openScene, type Scene, SECRET, stoppedBy } from "../scene.ts";

const execute = promisify(execFile);

let scene: Scene;
let tool: Tool;
/** The same tool, where every command ends before it is measured. */
let unmeasured: Tool;
beforeAll(async () => {
  scene = await openScene();
  const options = {
    clock: systemClock,
    mode: "sandboxed",
    production: true,
    acceptUnsandboxed: false,
  } as const;
  const { runner, sentence } = await chooseRunner(options);
  if (runner === undefined) throw new Error(sentence);
  tool = bashTool(runner, systemClock);
  const sleep = (_ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve) => void signal?.addEventListener("abort", () => resolve(), { once: true }));
  unmeasured = bashTool(runner, { ...systemClock, sleep });
});

it("is refused without a runner, in words that say where one comes from", () => {
  expect(() => Reflect.apply(bashTool, undefined, [undefined])).toThrow(
    expect.objectContaining({ code: "invalid_tool", message: expect.stringMatching(/chooseRunner/) }),
  );
});

const bash = (
  command: string,
  more: { timeout_seconds?: number; signal?: AbortSignal; of?: Scene; using?: Tool } = {},
) => {
  const { of = scene, signal, timeout_seconds, using = tool } = more;
  const call = { id: "toolu_1", name: "bash", input: { command, timeout_seconds } };
  return runTool(using, call, of.context(signal), {
    offered: ["bash"],
    clock: systemClock,
    stop: stoppedBy(signal),
  });
};

/** Whether any process of the machine has this word in its arguments. */
async function lives(word: string): Promise<boolean> {
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(word)) return true;
    } catch {
      // It ended meanwhile.
    }
  }
  return false;
}

describe("bash", () => {
  it("leaves no listener behind on the signal of its run", async () => {
    const { signal } = new AbortController();
    for (let i = 0; i < 3; i++) await tool.run({ command: "true" }, scene.context(signal));
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  it("answers what the command wrote, both streams in one, and an error with its exit code", async () => {
    expect(await bash("echo one; echo two >&2")).toMatchObject({ content: "one\ntwo", isError: false });
    expect(await bash("echo before; exit 3")).toMatchObject({
      content: "before\n[exit code 3]",
      isError: true,
    });
    expect(await bash("true")).toMatchObject({ content: "(no output)", isError: false });
    expect((await bash("cat <<'EOF'\n$HOME 'quotes' \"and\" \\n\nEOF")).content).toBe(
      "$HOME 'quotes' \"and\" \\n",
    );
  });

  it("works in the workspace that the other tools see, in both directions", async () => {
    await scene.call("write_file", { file_path: "from-tool.txt", content: "hello" });
    expect((await bash("cat from-tool.txt && echo back > from-bash.txt")).content).toBe("hello");
    expect((await scene.call("read_file", { file_path: "from-bash.txt" })).content).toBe("back\n");
    await bash("echo changed > from-tool.txt");
    expect(await readFile(join(scene.home, "from-tool.txt"), "utf8")).toBe("changed\n");
  });

  it("reads opened directories, changes none, and sees none of their secrets", async () => {
    const own = await openScene();
    await writeFile(join(own.writable, "data.txt"), "data\n");
    await writeFile(join(own.writable, ".env"), `${SECRET}\n`);
    expect((await bash(`cat ${own.writable}/data.txt`, { of: own })).content).toBe("data");
    expect((await bash(`cat ${own.writable}/.env`, { of: own })).content).not.toContain(SECRET);
    expect((await bash(`echo x > ${own.writable}/data.txt`, { of: own })).isError).toBe(true);
  });

  it("works beside links with secret names, and sees nothing of what they lead to", async () => {
    const own = await openScene();
    const [here, there] = [own.writable, own.readOnly];
    const put = async (path: string, content: string) => {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, `${content}\n`);
    };
    for (const name of ["conf/plain", "conf/other", "conf/keys/list", ".aws/config", ".env.real"])
      await put(join(here, name), SECRET);
    for (const name of ["elsewhere", "absolute"]) await put(join(there, "conf", name), SECRET);
    await put(join(here, "data.txt"), "data");
    const links = {
      ".env": "../outside/secret.txt",
      ".env.gone": "nowhere",
      ".env.round": ".env.round",
      ".env.plain": "conf/plain",
      ".npmrc": join(here, "conf/other"),
      ".pgpass": "../repo/conf/elsewhere",
      ".netrc": join(there, "conf/absolute"),
      ".pypirc": ".aws/config",
      ".ssh": "conf/keys",
      ".gnupg": own.outside,
      innocent: ".env.real",
    };
    for (const [name, target] of Object.entries(links)) await symlink(target, join(here, name));
    const look = `cat data.txt; cat ${Object.keys(links).join(" ")} .ssh/list .gnupg/secret.txt; grep -Rs TOP ${here} ${there}`;
    const { content } = await bash(`cd ${here}; { ${look}; } 2>/dev/null; true`, { of: own });
    expect(content).toBe("data");
  });

  it("works beside secrets that have gone since the last command, and hides them again when they are back", async () => {
    const own = await openScene();
    const [passing, kept] = [join(own.writable, ".env.tmp"), join(own.writable, ".aws")];
    await mkdir(kept);
    await writeFile(join(kept, "config"), SECRET);
    await writeFile(passing, SECRET);
    const look = `cat ${passing} ${kept}/config 2>/dev/null; echo looked`;
    expect(await bash(look, { of: own })).toMatchObject({ content: "looked" });
    await rm(passing);
    expect(await bash(look, { of: own })).toMatchObject({ content: "looked" });
    await writeFile(passing, SECRET);
    expect(await bash(look, { of: own })).toMatchObject({ content: "looked" });
    await rm(kept, { recursive: true });
    await writeFile(kept, SECRET);
    expect(await bash(look.replace("/config", ""), { of: own })).toMatchObject({ content: "looked" });
  });

  it.each(["gone", "directory"])("works beside a secret that has become a link to %s", async (target) => {
    const own = await openScene();
    const [secret, plain] = [join(own.writable, ".env"), join(own.writable, "plain")];
    await mkdir(join(own.writable, "directory"));
    await writeFile(plain, "data");
    await writeFile(secret, SECRET);
    const look = `cat ${secret} 2>/dev/null; cat ${plain}`;
    expect(await bash(look, { of: own })).toMatchObject({ content: "data", isError: false });
    await rm(secret);
    await symlink(target, secret);
    expect(await bash(look, { of: own })).toMatchObject({ content: "data", isError: false });
  });

  it.each([
    ["a key", "touch $'cl\\xe9.pem'"],
    ["a FIFO", "mkfifo $'p\\xff'"],
    ["a link to a secret", "echo TOP-SECRET > plain; ln -s plain $'\\xe9.pem'"],
  ])("shows no directory with %s whose name is no text, and works beside it", async (_, make) => {
    const own = await openScene();
    execFileSync("/bin/bash", ["-c", make], { cwd: own.writable });
    const { content, isError } = await bash(`cat ${own.writable}/* 2>/dev/null; echo done`, { of: own });
    expect(content).toMatch(
      /^done\n\[not shown to commands: .* \(the name of a file to be hidden is no text\)\]$/,
    );
    expect(isError).toBe(false);
  });

  it("is what the kernel ends when memory runs out, not its worker", async () => {
    const ours = readFileSync("/proc/self/oom_score_adj", "utf8");
    expect(await bash("cat /proc/self/oom_score_adj")).toMatchObject({ content: "1000", isError: false });
    expect(readFileSync("/proc/self/oom_score_adj", "utf8")).toBe(ours);
  });

  it("shows no directory in which other agents' workspaces lie, and says so", async () => {
    const own = await openScene();
    const area = (path: string) => ({ kind: "root" as const, path, shownAs: path, writable: false });
    for (const path of [own.base, join(own.base, "state"), join(own.base, "state/default/p/agents/a2")]) {
      const workspace = { ...own.workspace, roots: [area(path)] };
      const context = { ...own.context(), workspace };
      const call = {
        id: "t",
        name: "bash",
        input: { command: `cat ${path}/*/secret.txt; grep -rs TOP ${path}` },
      };
      const { content } = await runTool(tool, call, context, {
        offered: ["bash"],
        clock: systemClock,
        stop: stoppedBy(),
      });
      expect(content).not.toContain(SECRET);
      expect(content).toContain("[not shown to commands:");
    }
  });

  it("carries the working directory over, and nothing else", async () => {
    const own = await openScene();
    const say = async (command: string) => (await bash(command, { of: own })).content;
    await say("mkdir -p a/b && cd a/b && x=1 && sleep 100 &");
    await say("mkdir -p a/b && cd a/b && export X=1");
    expect(await say('pwd; echo "[$X]"')).toBe("/workspace/a/b\n[]");
    expect((await bash("cd .. && exit 4", { of: own })).isError).toBe(true);
    expect(await say("pwd")).toBe("/workspace/a");
    await say("cd /usr");
    expect(await say("pwd")).toBe("/workspace/a");
    await say("cd /workspace && rm -r a");
    expect(await say("pwd")).toBe("/workspace");
    expect((await bash("pwd")).content).toBe("/workspace");
  });

  it("runs the commands of one turn one after another", async () => {
    const own = await openScene();
    const calls = [1, 2, 3].map((n) => bash(`echo ${n}a >> log; sleep 0.05; echo ${n}b >> log`, { of: own }));
    await Promise.all(calls);
    expect(await readFile(join(own.home, "log"), "utf8")).toBe("1a\n1b\n2a\n2b\n3a\n3b\n");
  });

  it("kills the whole tree when the time is over, and shows what was written", async () => {
    const outcome = await bash(
      "echo begun; setsid sleep 43210 & nohup sleep 43210 & trap '' TERM; sleep 43210",
      {
        timeout_seconds: 1,
      },
    );
    expect(outcome).toMatchObject({ isError: true });
    expect(outcome.content).toBe("begun\n[killed with all its processes after 1 s]");
    expect(await lives("43210")).toBe(false);
  });

  it("kills the whole tree at once when the run is stopped", async () => {
    const stop = new AbortController();
    const running = bash("setsid sleep 43211 & (trap '' TERM; sleep 43211) & sleep 43211", {
      signal: stop.signal,
    });
    await until(() => lives("43211"));
    stop.abort();
    expect(await running).toMatchObject({ isError: true, content: expect.stringMatching(/^Cancelled/) });
    await until(async () => !(await lives("43211")));
  });

  it("kills the whole tree when its worker is killed", async () => {
    const code = `
      import { systemClock } from "./src/shared/clock.ts";
      import { chooseRunner } from "./src/worker/tools/sandbox/choose.ts";
      const { runner } = await chooseRunner({ clock: systemClock, mode: "sandboxed", production: true, acceptUnsandboxed: false });
      const [directory] = process.argv.slice(1);
      const workspace = { directory, hidden: directory, home: {}, roots: [], exclusive: (work) => work() };
      await runner.run({ script: "setsid sleep 43212 & sleep 43212", workspace, timeoutMs: 60000, signal: new AbortController().signal });
    `;
    const own = await openScene();
    const options = ["--import", "tsx", "--input-type=module", "--eval", code, own.home];
    const worker = spawn(process.execPath, options, { cwd: process.cwd(), stdio: "ignore" });
    await until(() => lives("43212"));
    worker.kill("SIGKILL");
    await until(async () => !(await lives("43212")));
  });

  it("stops a command that fills the workspace, and lets one empty it", async () => {
    const own = await openScene();
    const filled = await bash("for n in 1 2 3; do head -c 700M /dev/zero > f$n; done; sleep 30", { of: own });
    expect(filled).toMatchObject({ isError: true });
    expect(filled.content).toContain("[killed: your workspace is full; delete something first]");
    expect((await own.call("write_file", { file_path: "x", content: "x" })).content).toMatch(
      /workspace is full/,
    );
    expect(await bash("rm f*; sleep 1.2; echo emptied", { of: own })).toMatchObject({ content: "emptied" });
    expect(await own.call("write_file", { file_path: "x", content: "x" })).toMatchObject({ isError: false });
  });

  it("stops a command that adds to a full workspace, wherever it adds", async () => {
    const own = await openScene();
    await own.put("below/here", "");
    for (const name of ["a", "b"]) await execute("fallocate", ["-l", "600M", join(own.home, name)]);
    const added = await bash("for n in $(seq 100000); do mkdir below/$n; done; sleep 30", {
      of: own,
      timeout_seconds: 20,
    });
    expect(added.content).toContain("[killed: your workspace is full; delete something first]");
  });

  it("fails a command that ends before its workspace was measured and leaves it too full, and the next writes nothing", async () => {
    const own = await openScene();
    await execute("fallocate", ["-l", "1000M", join(own.home, "large")]);
    const short = await bash("head -c 40M /dev/zero > more && echo written", { of: own, using: unmeasured });
    expect(short).toMatchObject({ isError: true });
    expect(short.content).toContain("your workspace is full; delete something first");
    const refused = await bash("echo x > another", { of: own, using: unmeasured });
    expect(refused.content).toContain("[your workspace was full: this command could write no file.");
    expect((await stat(join(own.home, "another"))).size).toBe(0);
    expect(await bash("rm more && echo removed", { of: own, using: unmeasured })).toMatchObject({
      content: "removed",
    });
    expect(await bash("echo x > another && cat another", { of: own, using: unmeasured })).toMatchObject({
      content: "x",
    });
  });

  it("stops a command that fills the disk where no count sees it, and gives the room back", async () => {
    const code = `
      import { statfsSync } from "node:fs";
      import { systemClock } from "./src/shared/clock.ts";
      import { bashTool } from "./src/worker/tools/builtin/bash.ts";
      import { createUnconfined } from "./src/worker/tools/sandbox/unconfined.ts";
      const [directory] = process.argv.slice(1);
      const workspace = { directory, hidden: directory, home: {}, roots: [], exclusive: (work) => work() };
      const before = statfsSync(directory).bfree;
      const command = "exec 9>held; rm held; head -c 40M /dev/zero >&9; sleep 30";
      const said = bashTool(createUnconfined(systemClock)).run({ command, timeout_seconds: 10 }, { workspace, signal: new AbortController().signal });
      console.log(await said.catch((error) => error.message), statfsSync(directory).bfree === before);
    `;
    const own = await openScene();
    const alone = process.getuid?.() === 0 ? ["--mount"] : ["--mount", "--user", "--map-root-user"];
    const small = 'mount -t tmpfs -o size=64m tmpfs "$1" && shift && exec "$@"';
    const node = [process.execPath, "--import", "tsx", "--input-type=module", "--eval", code, own.home];
    const { stdout } = await execute("unshare", [...alone, "sh", "-c", small, "sh", own.home, ...node]);
    expect(stdout).toBe("[killed: the disk is nearly full; write less, or delete something first] true\n");
  });

  it("stops a command whose use of the disk cannot be watched, and ends no worker by that", async () => {
    const clock = { ...systemClock, sleep: () => Promise.reject(new Error("no time")) };
    const blind = bashTool(createUnconfined(systemClock), clock);
    await expect(blind.run({ command: "sleep 30" }, scene.context())).rejects.toThrow(
      "[killed: its use of the disk cannot be watched; try again]",
    );
  });

  it("reports a command that has run as it went where its workspace cannot be counted any more", async () => {
    const context = scene.context();
    let isShort = false;
    const workspace = {
      ...context.workspace,
      get directory() {
        if (isShort) throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
        return scene.home;
      },
    };
    const runner: Runner = {
      ...createUnconfined(systemClock),
      async run() {
        isShort = true;
        return { output: "pushed", exitCode: 0, withheld: [] };
      },
    };
    const pushed = bashTool(runner).run({ command: "git push" }, { ...context, workspace });
    expect(await pushed).toBe("pushed");
  });

  it("gives way to its worker, however many processes it starts", async () => {
    expect(await bash("nice; renice -n 0 $$ 2>/dev/null; nice")).toMatchObject({ content: "19\n19" });
  });

  it("keeps the beginning and the end of a long output, and little memory", async () => {
    const before = process.memoryUsage().rss;
    const { content } = await bash("echo first; seq 1 3000000; echo last");
    expect(content.startsWith("first\n1\n2\n")).toBe(true);
    expect(content).toMatch(/\n\[\d+ bytes left out here\]\n/);
    expect(content.endsWith("\n3000000\nlast")).toBe(true);
    expect(content).not.toContain(CUT_MARKER);
    expect(await bash("yes", { timeout_seconds: 20 })).toMatchObject({ isError: true });
    // To keep the 64 MB that were written takes twice as much, as bytes and as text. Node 26 collects read bytes late.
    expect(process.memoryUsage().rss - before).toBeLessThan(96 * 1024 * 1024);
  });

  it("says how a command with a long output ended, and cuts none of its characters", async () => {
    const failed = await bash("printf a; yes é | head -c 200000; printf '\\nError: no space\\n'; exit 3");
    expect(failed.content.endsWith("\nError: no space\n[exit code 3]")).toBe(true);
    expect(failed.content).not.toContain("\uFFFD");
    const slow = await bash("seq 1 20000; sleep 9", { timeout_seconds: 2 });
    expect(slow.content.endsWith("\n20000\n[killed with all its processes after 2 s]")).toBe(true);
    const whole = await bash("printf a; yes é | head -c 45000");
    expect(whole.content).toBe(`a${"é\n".repeat(15_000)}`.trimEnd());
  });

  it("ends with a command that floods the descriptor on which its shell says where it stands", async () => {
    const { content } = await bash("cat /dev/zero >&3", { timeout_seconds: 5 });
    expect(content).toBe("[killed: it wrote more than 64 MB, or more than 8 KB to descriptor 3]");
  });

  it("lets a command take the disk by writing alone, which its limits and the quota see", async () => {
    const own = await openScene();
    const call = process.arch === "arm64" ? 47 : 285;
    const script = `
      open(F, ">", "reserved") or die;
      printf("%d %d\n", syscall(${call}, fileno(F), 1, 0, 1 << 20), $!);
      for (0x40305828, 0x4030582a, 0x40305839) {
        printf("%s %d\n", ioctl(F, $_, pack("s2x4q2lLl4", 0, 0, 0, 1 << 20, (0) x 6)) ? "done" : "refused", $!);
      }`;
    const { content } = await bash(`perl -e '${script}'; stat -c %b reserved`, { of: own });
    expect(content).toBe("-1 95\nrefused 95\nrefused 95\nrefused 95\n0");
    expect(await bash("fallocate --posix -l 1M written && stat -c %s written", { of: own })).toMatchObject({
      content: "1048576",
    });
  });
});
