import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { chooseRunner } from "../../../../../src/worker/tools/sandbox/choose.ts";
import { createRunsc, ociConfig, runscArguments } from "../../../../../src/worker/tools/sandbox/runsc.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { until } from "../../../../helpers/until.ts";
import { openScene, type Scene } from "../scene.ts";

const asRoot = process.getuid?.() === 0;
const Said = z.object({ bundle: z.string(), arguments: z.string(), config: z.string(), entries: z.string() });

/** A program in the place of runsc, which stands on no machine of ours. */
async function standIn(scene: Scene, program: string): Promise<string> {
  const path = join(scene.base, "runsc");
  writeFileSync(path, `#!/bin/bash\n${program}\n`, { mode: 0o755 });
  return path;
}

function run(runsc: string, scene: Scene, script: string, timeoutMs = 20_000, clock = systemClock) {
  const { signal } = new AbortController();
  const runner = createRunsc({ clock, asRoot, runsc });
  return runner?.run({ script, workspace: scene.workspace, timeoutMs, signal });
}

/** Runs the program that the bundle names, on this machine and without walls: what is shown is the way there and back. */
const RUN_BUNDLE = `
exec node -e '
  const { process: { args, env } } = JSON.parse(require("fs").readFileSync(process.argv[1] + "/config.json", "utf8"));
  const { status } = require("child_process").spawnSync(args[0], args.slice(1), {
    stdio: ["ignore", 1, 2, 3, 4], env: Object.fromEntries(env.map((each) => each.split("="))),
  });
  process.exit(status ?? 1);
' "$(for a in "$@"; do [ "$last" = --bundle ] && echo "$a"; last=$a; done)"`;

describe("the runner for runsc", () => {
  it("is absent with a reason where runsc is not installed", async () => {
    const options = { clock: systemClock, production: false, acceptUnsandboxed: false, runsc: "/none/runsc" };
    const { runner, sentence } = await chooseRunner({ ...options, mode: "runsc" });
    expect(runner).toBeUndefined();
    expect(sentence).toMatch(/^bash is not offered: no sandbox runs here \(runsc: it is not installed\)/);
  });

  it("is refused where what runs a bundle is no gVisor", async () => {
    const scene = await openScene();
    for (const program of [
      RUN_BUNDLE,
      "exit 0",
      "exit 128",
      "echo workspace processes network capabilities gvisor",
    ]) {
      const runsc = await standIn(scene, program.replace("exec node", `exec ${process.execPath}`));
      const options = {
        clock: systemClock,
        mode: "runsc",
        production: true,
        acceptUnsandboxed: false,
        runsc,
      } as const;
      const { runner, sentence } = await chooseRunner(options);
      expect(runner).toBeUndefined();
      expect(sentence).toMatch(/^bash is not offered: no sandbox runs here \(runsc: /);
    }
  });

  it("hands the command over by a descriptor, and has its output, its exit code and where it ended", async () => {
    const scene = await openScene();
    const runsc = await standIn(scene, RUN_BUNDLE.replace("exec node", `exec ${process.execPath}`));
    const outcome = await run(runsc, scene, `echo said; echo also >&2; cd ${scene.readOnly}; exit 7`);
    expect(outcome).toMatchObject({ exitCode: 7, cwd: scene.readOnly, withheld: [] });
    expect(outcome?.output).toMatch(/said\nalso\n$/);
  });

  it("calls it with a bundle of its own, which is gone afterwards and held neither the command nor a secret", async () => {
    const scene = await openScene();
    writeFileSync(join(scene.readOnly, ".env"), "KEY=1");
    const tell = `const fs = require("fs"); console.log(JSON.stringify({ bundle: process.cwd(), arguments: process.argv.slice(1).join(" "),
      config: fs.readFileSync("config.json", "utf8"), entries: fs.readdirSync(".").sort().join(" ") }));`;
    const runsc = await standIn(scene, `exec ${process.execPath} -e '${tell}' -- "$@"`);
    const outcome = await run(runsc, scene, "echo THE-COMMAND");
    const said = Said.parse(JSON.parse(outcome?.output ?? ""));
    expect(said.entries).toBe("config.json empty rootfs");
    expect(said.config).not.toContain("THE-COMMAND");
    const { mounts, process: started } = JSON.parse(said.config);
    expect(started).toMatchObject({ noNewPrivileges: true, terminal: false, cwd: "/workspace" });
    expect(started.user.uid).toBe(asRoot ? 65_534 : process.getuid?.());
    const covered = mounts.find(({ destination }: { destination: string }) => destination.endsWith("/.env"));
    expect(covered).toMatchObject({ type: "bind", options: ["rbind", "ro", "nosuid", "nodev"] });
    expect(covered.source).toMatch(/\/empty$/);
    expect(said.bundle).toMatch(/\/subagent-runsc-\w+$/);
    expect(existsSync(said.bundle)).toBe(false);
  });

  it("kills it with its processes when the time is over", async () => {
    const scene = await openScene();
    const pidFile = join(scene.base, "pid");
    const runsc = await standIn(scene, `echo begun; sleep 43214 & echo $! > ${pidFile}; sleep 43214`);
    const clock = handClock();
    const outcome = run(runsc, scene, "true", 500, clock);
    const pid = await until(() => Number(readFileSync(pidFile, "utf8")));
    clock.advance(500);
    expect(await outcome).toMatchObject({ output: "begun\n", killed: "timeout" });
    await until(() => !existsSync(`/proc/${pid}`));
  });

  it("writes the command line that gVisor documents", () => {
    expect(runscArguments("/tmp/subagent-runsc-abc", false).join(" ")).toBe(
      "--root /tmp/subagent-runsc-abc/state --network=none --ignore-cgroups --host-uds=none --host-fifo=none " +
        "--overlay2=root:memory --rootless run --bundle /tmp/subagent-runsc-abc --pass-fd 3:3 --pass-fd 4:4 subagent-runsc-abc",
    );
    expect(runscArguments("/b", true)).not.toContain("--rootless");
  });

  it("mounts the workspace writable, opened directories read-only, and what is covered after them", () => {
    const area = { kind: "root", path: "/real/repo", shownAs: "/srv/repo", writable: true } as const;
    const mounts = {
      areas: [area],
      files: ["/srv/repo/.env"],
      directories: ["/srv/repo/.ssh"],
      withheld: [],
    };
    const config = ociConfig("/host/workspace", mounts, "/bundle", 65_534);
    expect(config.root).toEqual({ path: "rootfs", readonly: true });
    expect(config.process.capabilities.bounding).toEqual([]);
    expect(config.linux.namespaces).toContainEqual({ type: "network" });
    expect(config.mounts.slice(-4)).toMatchObject([
      { destination: "/workspace", source: "/host/workspace", options: ["rbind", "rw", "nosuid", "nodev"] },
      { destination: "/srv/repo", source: "/real/repo", options: ["rbind", "ro", "nosuid", "nodev"] },
      { destination: "/srv/repo/.ssh", type: "tmpfs" },
      { destination: "/srv/repo/.env", source: "/bundle/empty" },
    ]);
    const writable = config.mounts.filter(({ type, options }) => type === "bind" && !options.includes("ro"));
    expect(writable.map(({ destination }) => destination)).toEqual(["/workspace"]);
  });
});
