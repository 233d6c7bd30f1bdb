import { execFileSync } from "node:child_process";
import { lstatSync, readdirSync } from "node:fs";
import { link, mkdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { beforeAll, describe, expect, it } from "vitest";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { openScene, type Scene, SECRET } from "../scene.ts";

/** Every call that takes a path, with `path` as that path. */
const CALLS: Record<string, (path: string) => [string, Record<string, unknown>]> = {
  read_file: (path) => ["read_file", { file_path: path }],
  "read_file by lines": (path) => ["read_file", { file_path: path, view_range: [1, -1] }],
  edit_file: (path) => ["edit_file", { file_path: path, old_string: SECRET, new_string: "OVERWRITTEN" }],
  glob: (path) => ["glob", { pattern: "**", path }],
  "glob in the pattern": (path) => ["glob", { pattern: `${path}/**` }],
  grep: (path) => ["grep", { pattern: "SECRET", path }],
  write_file: (path) => ["write_file", { file_path: path, content: "OVERWRITTEN" }],
};

let scene: Scene;
let attacks: string[];

/** Name, size, kind, mode and time of everything in a directory. */
function listing(directory: string): unknown[] {
  return readdirSync(directory)
    .sort()
    .map((name) => {
      const { size, mode, mtimeMs } = lstatSync(join(directory, name));
      return { name, size, mode, mtimeMs };
    });
}

/** Everything around the workspace that holds a secret, by content. */
async function surroundings(): Promise<string> {
  const files = [
    join(scene.outside, "secret.txt"),
    join(scene.home, "../../a2/workspace/secret.txt"),
    join(scene.home, "../../a1-evil/workspace/secret.txt"),
    join(scene.home, "../.stamp.json"),
    join(scene.readOnly, "kept.txt"),
  ];
  const contents = await Promise.all(files.map((file) => readFile(file, "utf8")));
  const listings = [scene.outside, join(scene.home, ".."), join(scene.home, "../.."), scene.readOnly];
  return JSON.stringify([contents, listings.map((directory) => readdirSync(directory).sort())]);
}

async function plantLinks(): Promise<string[]> {
  const secret = join(scene.outside, "secret.txt");
  const links: Record<string, string> = {
    leaf: secret,
    parent: scene.outside,
    absolute_root: "/",
    proc: "/proc/self/root",
    fd: "/dev/fd",
    relative: "../../../../../../outside",
    neighbour: "../../a2/workspace",
    sibling: "../../a1-evil/workspace",
    stamp: "../.stamp.json",
    dangling: join(scene.outside, "not-there-yet"),
    dangling_parent: join(scene.outside, "no/such/dir"),
    loop_a: "loop_b",
    loop_b: "loop_a",
    self: "self/self",
    chain_1: "chain_2",
    chain_2: "parent",
    up: "..",
    in_and_out: "sub/../../../a2/workspace",
    host_state: join(scene.base, "state"),
    etc: "/etc",
  };
  await mkdir(join(scene.home, "sub"));
  for (const [name, target] of Object.entries(links)) await symlink(target, join(scene.home, name));
  await symlink("../parent", join(scene.home, "sub/deep"));
  await symlink(scene.outside, join(scene.writable, "way-out"));
  await symlink(scene.outside, join(scene.readOnly, "way-out"));
  await link(secret, join(scene.home, "hard"));
  return [...Object.keys(links), "sub/deep", "hard"].flatMap((name) => [
    name,
    `${name}/secret.txt`,
    `./sub/../${name}/.`,
  ]);
}

function spellings(): string[] {
  const up = "../".repeat(12);
  const secret = join(scene.outside, "secret.txt");
  return [
    "../x",
    "..",
    "../..",
    "../.stamp.json",
    "../../a2/workspace/secret.txt",
    "../../a1-evil/workspace/secret.txt",
    "../workspace-evil",
    `${up}etc/passwd`,
    `sub/${up}etc/passwd`,
    "./.././../a2",
    "sub/../../../a2/workspace/secret.txt",
    secret,
    scene.outside,
    `${scene.outside}/.`,
    `${scene.readOnly}/../outside/secret.txt`,
    `${scene.readOnly}-evil`,
    `${scene.writable}/../outside/secret.txt`,
    `${scene.writable}/way-out/secret.txt`,
    `${scene.readOnly}/way-out/secret.txt`,
    join(scene.base, "state"),
    join(scene.base, "state/default/p/agents/a2/workspace/secret.txt"),
    "/",
    "//",
    "/etc/passwd",
    "//etc/passwd",
    "/etc/../etc/passwd",
    "/proc/self/root/etc/passwd",
    `/proc/self/root${secret}`,
    "/proc/self/cwd",
    "/proc/self/environ",
    "/proc/1/environ",
    "/dev/fd/0",
    "/dev/stdin",
    "/dev/zero",
    "/dev/tty",
    "~",
    "~/.ssh/id_rsa",
    "a\0b",
    `${secret}\0.txt`,
    "\0",
    "x".repeat(4_097),
    `${"d/".repeat(3_000)}x`,
    "x".repeat(300),
    `sub/${"é".repeat(200)}`,
    "\ud800",
    "",
    "file:///etc/passwd",
    "..\\..\\etc\\passwd",
    "%2e%2e/%2e%2e/etc/passwd",
    "．．/etc/passwd",
    "․․/x",
  ];
}

beforeAll(async () => {
  scene = await openScene();
  await writeFile(join(scene.readOnly, "kept.txt"), `${SECRET} read-only\n`);
  attacks = [...(await plantLinks()), ...spellings()];
});

describe("attacks by path", () => {
  it("lets none of more than 300 attacks read, change or create anything outside", async () => {
    const before = await surroundings();
    const leaks: string[] = [];
    let made = 0;
    let refused = 0;
    for (const attack of attacks) {
      for (const [title, build] of Object.entries(CALLS)) {
        const [name, input] = build(attack);
        const tool = scene.tools.find((candidate) => candidate.name === name);
        made++;
        const { content, isError } = await scene.call(name, input);
        if (isError) refused++;
        // The tool itself names no host path either, without what the registry takes out.
        const own = await tool?.run(input, scene.context()).catch((error: Error) => error.message);
        const forbidden = [SECRET, "root:", scene.outside, `${scene.base}/state`];
        // A refusal quotes the path it was given; that is all a host path may come from.
        const leaked = forbidden.filter(
          (text) => !attack.includes(text) && `${content}${own}`.includes(text),
        );
        if (leaked.length > 0) leaks.push(`${title} ${attack}: ${content} ${own}`);
      }
    }
    expect(leaks).toEqual([]);
    expect(await surroundings()).toBe(before);
    expect(made).toBeGreaterThan(300);
    expect(refused).toBeGreaterThan(made / 2);
  });

  it("reads and writes what is inside all the same", async () => {
    await symlink("sub", join(scene.home, "inner"));
    await symlink(scene.writable, join(scene.home, "to-data"));
    await symlink("sub/ok.txt", join(scene.home, "to-ok.txt"));
    for (const path of [
      "sub/ok.txt",
      "to-ok.txt",
      "inner/linked.txt",
      "to-data/made/by-link.txt",
      join(scene.writable, "x/y.txt"),
    ]) {
      expect(await scene.call("write_file", { file_path: path, content: path })).toMatchObject({
        isError: false,
      });
      expect(await scene.call("read_file", { file_path: path })).toMatchObject({ content: path });
    }
    expect(await readFile(join(scene.writable, "made/by-link.txt"), "utf8")).toBe("to-data/made/by-link.txt");
    expect(await readFile(join(scene.home, "sub/ok.txt"), "utf8")).toBe("to-ok.txt");
    const readOnly = join(scene.readOnly, "kept.txt");
    expect(await scene.call("read_file", { file_path: readOnly })).toMatchObject({
      isError: false,
      content: `${SECRET} read-only\n`,
    });
  });

  it("leaves no directory on the way open", async () => {
    await scene.put("one/two/three/four/deep.txt", "deep");
    await scene.put("one/.gitignore", "*.log");
    await symlink("two/three/four/deep.txt", join(scene.home, "one/to-deep.txt"));
    const open = () => readdirSync("/proc/self/fd").length;
    const calls = [
      ["read_file", "one/two/three/four/deep.txt"],
      ["read_file", "one/two/three/five/absent.txt"],
      ["read_file", "one/to-deep.txt"],
      ["write_file", "one/two/three/four/deep.txt/below.txt"],
      ["write_file", "one/two/new/written.txt"],
      ["edit_file", "one/two/new/written.txt"],
      ["glob", "one"],
      ["grep", "one"],
      ["grep", "one/two/three/four/deep.txt"],
    ] as const;
    const make = async ([name, path]: (typeof calls)[number]) => {
      const edit = { content: "x", old_string: "x", new_string: "x y" };
      await scene.call(name, { file_path: path, path, pattern: name === "glob" ? "**" : "deep", ...edit });
    };
    // The first grep starts what stays.
    await make(["grep", "one"]);
    const before = open();
    for (const call of calls) {
      // Looked at after each call: what is left open the garbage collector closes some time later.
      for (let i = 0; i < 5; i++) {
        await make(call);
        expect(open(), call.join(" ")).toBeLessThanOrEqual(before);
      }
    }
  });

  it("refuses every change in a read-only root and says so", async () => {
    const path = join(scene.readOnly, "kept.txt");
    const edit = { file_path: path, old_string: SECRET, new_string: "x" };
    for (const outcome of [
      await scene.call("write_file", { file_path: path, content: "x" }),
      await scene.call("edit_file", edit),
      await scene.call("write_file", { file_path: join(scene.readOnly, "new/x"), content: "x" }),
    ]) {
      expect(outcome.isError).toBe(true);
      expect(outcome.content).toContain("read-only");
    }
  });

  it("answers at once about FIFOs, sockets, devices and directories", async () => {
    execFileSync("/usr/bin/mkfifo", [join(scene.home, "fifo")]);
    const server = createServer().listen(join(scene.home, "sock"));
    closeAtEnd(() => void server.close());
    await symlink("/dev/zero", join(scene.home, "zero"));
    for (const path of ["fifo", "sock", "zero", "sub", "."]) {
      for (const name of ["read_file", "write_file", "edit_file"]) {
        const input = { file_path: path, content: "x", old_string: "a", new_string: "b" };
        expect(await scene.call(name, input), `${name} ${path}`).toMatchObject({ isError: true });
      }
    }
    expect(await scene.call("grep", { pattern: "x", path: "fifo" })).toMatchObject({ isError: true });
    expect(await scene.call("grep", { pattern: "no such text at all" })).toMatchObject({
      content: "no matches",
    });
  });

  it("hides the workspaces from a root that contains them", async () => {
    const wide = await openScene();
    const state = join(wide.base, "state");
    const area = { kind: "root" as const, path: wide.base, shownAs: wide.base, writable: true };
    const workspace = { ...wide.workspace, roots: [area] };
    const context = { ...wide.context(), workspace };
    const run = (name: string, input: unknown) =>
      wide.tools
        .find((tool) => tool.name === name)
        ?.run(input, context)
        .catch((error: Error) => error.message);
    const neighbour = join(state, "default/p/agents/a2/workspace/secret.txt");
    expect(await run("read_file", { file_path: neighbour })).toMatch(/is outside/);
    expect(await run("glob", { pattern: "**", path: wide.base })).toBe(join(wide.base, "outside/secret.txt"));
  });
});

describe("a directory that is swapped for a link while tools run", () => {
  it("gives neither a read nor a write outside in three seconds and more", async () => {
    const raced = await openScene();
    await raced.put("real/secret.txt", "inside");
    const untouched = listing(raced.outside);
    const stop = new Int32Array(new SharedArrayBuffer(4));
    const swapper = new Worker(SWAP, {
      eval: true,
      workerData: { home: raced.home, outside: raced.outside, stop },
    });
    closeAtEnd(async () => void (await swapper.terminate()));
    const done = new Promise<number>((resolve) => swapper.once("message", resolve));
    const counts = { inside: 0, refused: 0, leaked: 0 };
    const endMs = performance.now() + 3_000;
    while (performance.now() < endMs || counts.inside <= 50 || counts.refused <= 50) {
      const outcomes = await Promise.all([
        raced.call("read_file", { file_path: "d/secret.txt" }),
        raced.call("read_file", { file_path: "f" }),
        raced.call("edit_file", { file_path: "f", old_string: SECRET, new_string: "OVERWRITTEN" }),
        raced.call("write_file", { file_path: "d/new.txt", content: "x" }),
        raced.call("write_file", { file_path: "d/made/deep/new.txt", content: "x" }),
        raced.call("edit_file", { file_path: "d/secret.txt", old_string: SECRET, new_string: "OVERWRITTEN" }),
      ]);
      for (const { content, isError } of outcomes) {
        if (content.includes(SECRET)) counts.leaked++;
        else if (isError) counts.refused++;
        else counts.inside++;
      }
    }
    Atomics.store(stop, 0, 1);
    expect(await done).toBeGreaterThan(1_000);
    expect(counts.leaked).toBe(0);
    expect(counts.inside).toBeGreaterThan(50);
    expect(counts.refused).toBeGreaterThan(50);
    expect(listing(raced.outside)).toEqual(untouched);
    expect(await readFile(join(raced.outside, "secret.txt"), "utf8")).toBe(`${SECRET}\n`);
  });

  it("keeps searches inside as well", async () => {
    const raced = await openScene();
    await raced.put("real/inside.txt", "SECRET inside");
    await symlink(raced.outside, join(raced.home, "other"));
    for (let round = 0; round < 20; round++) {
      const searches = [raced.call("grep", { pattern: "SECRET" }), raced.call("glob", { pattern: "d/**" })];
      for (const name of ["real", "other", "real", "other"]) {
        await rename(join(raced.home, name), join(raced.home, "d"));
        await rename(join(raced.home, "d"), join(raced.home, name));
      }
      for (const { content } of await Promise.all(searches))
        expect(content).not.toMatch(/TOP-SECRET|secret\.txt/);
    }
  });
});

/** Puts the real directory (file) and a link to the outside in the same place by turns, until it is stopped. */
const SWAP = `
const fs = require("node:fs");
const { parentPort, workerData: { home, outside, stop } } = require("node:worker_threads");
fs.symlinkSync(outside, home + "/link");
fs.symlinkSync(outside + "/secret.txt", home + "/leaf");
fs.writeFileSync(home + "/file", "inside");
let swaps = 0;
const put = (name, at) => {
  try { fs.renameSync(home + name, home + at); swaps++; }
  catch { try { fs.renameSync(home + at, home + "/made-" + swaps++); } catch {} }
};
const take = (name, at) => { try { fs.renameSync(home + at, home + name); } catch {} };
while (Atomics.load(stop, 0) === 0) {
  for (const [name, at] of [["/real", "/d"], ["/file", "/f"], ["/link", "/d"], ["/leaf", "/f"]]) {
    put(name, at);
    take(name, at);
  }
}
parentPort.postMessage(swaps);
`;
