import {
  access,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeEach, expect, test } from "vitest";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnNode } from "../helpers/processes.ts";

let root: string;

/** A package with our build and these sources. */
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "build-"));
  closeAtEnd(() => rm(root, { recursive: true }));
  for (const file of [
    "scripts/build.mjs",
    "tsconfig.json",
    "tsconfig.build.json",
    "package.json",
    "package-lock.json",
  ]) {
    await cp(file, join(root, file), { recursive: true });
  }
  await symlink(resolve("node_modules"), join(root, "node_modules"));
  await write(
    "src/cli/main.ts",
    `#!/usr/bin/env node\nimport { answer } from "../index.ts";\nprocess.stdout.write(answer);\n`,
  );
  await write("src/index.ts", `export const answer: string = "42";\n`);
  await cp("src/shared/redis/lua-files.ts", join(root, "src/shared/redis/lua-files.ts"));
  await write("src/shared/redis/lua/include/spawn.lua", "-- Spawns.\nreturn 1\n");
});

/** A command that prints a Lua file. */
const LUA_COMMAND = `import { luaFile } from "../shared/redis/lua-files.ts";\nprocess.stdout.write(luaFile("include/spawn"));\n`;

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(root, path)), { recursive: true });
  await writeFile(join(root, path), text);
}

async function build(...args: string[]): Promise<number | null> {
  const script = await spawnNode(join(root, "scripts/build.mjs"), { args });
  return (await script.closed).code;
}

/** What the built command prints. */
async function said(): Promise<readonly string[]> {
  const main = await spawnNode(join(root, "dist/cli/main.js"));
  await main.closed;
  return main.stdout;
}

const read = (path: string) => readFile(join(root, path), "utf8");

test("a build compiles, declares types and makes the command executable", async () => {
  expect(await build()).toBe(0);
  expect(await said()).toEqual(["42"]);
  expect(await read("dist/index.d.ts")).toContain("answer: string");
  expect((await stat(join(root, "dist/cli/main.js"))).mode & 0o111).toBe(0o111);
});

test("a file that left src leaves dist, and nothing is left beside it", async () => {
  await write("src/gone.ts", "export const gone = 1;\n");
  await build();
  await rm(join(root, "src/gone.ts"));
  expect(await build()).toBe(0);
  await expect(access(join(root, "dist/gone.js"))).rejects.toThrow("ENOENT");
  expect((await readdir(root)).filter((name) => name.startsWith("dist"))).toEqual(["dist"]);
});

test("a failed build says so and leaves the last good one alone", async () => {
  await build();
  await write("src/index.ts", `export const answer: string = 42;\n`);
  expect(await build()).toBe(1);
  expect(await said()).toEqual(["42"]);
  expect((await readdir(root)).filter((name) => name.startsWith("dist"))).toEqual(["dist"]);
});

test("with --if-changed a build of the same sources is left alone, and an edited script is built again", async () => {
  await write("src/cli/main.ts", LUA_COMMAND);
  await build();
  await write("dist/witness", "here since the first build");
  expect(await build("--if-changed")).toBe(0);
  expect(await read("dist/witness")).toBe("here since the first build");
  await write("src/shared/redis/lua/include/spawn.lua", "-- Spawns.\nreturn 2\n");
  expect(await build("--if-changed")).toBe(0);
  expect(await said()).toEqual(["-- Spawns.", "return 2"]);
  await expect(access(join(root, "dist/witness"))).rejects.toThrow("ENOENT");
});

test("the Lua scripts are part of the code, and no file of the build", async () => {
  await write("src/cli/main.ts", LUA_COMMAND);
  expect(await build()).toBe(0);
  await rm(join(root, "src"), { recursive: true });
  expect(await said()).toEqual(["-- Spawns.", "return 1"]);
  const files = await readdir(join(root, "dist"), { recursive: true });
  expect(files.filter((name) => name.endsWith(".lua"))).toEqual([]);
});

test("modules that entry points share are one", async () => {
  await write("src/shared/place.ts", "export class Place {}\n");
  await write(
    "src/index.ts",
    `export { Place } from "./shared/place.ts";\nexport const answer: string = "42";\n`,
  );
  await write("src/worker/index.ts", `export { Place } from "../shared/place.ts";\n`);
  expect(await build()).toBe(0);
  const [index, worker] = await Promise.all([
    import(join(root, "dist/index.js")),
    import(join(root, "dist/worker/index.js")),
  ]);
  expect(worker.Place).toBe(index.Place);
});

test("code finds the programs that it starts, and the folder of the package", async () => {
  await write("src/worker/health/watchdog-thread.js", "export {};\n");
  await write(
    "src/worker/index.ts",
    `export const thread = new URL("./watchdog-thread.js", import.meta.url);\nexport const folder = new URL("../../", import.meta.url);\n`,
  );
  expect(await build()).toBe(0);
  const { thread, folder } = await import(join(root, "dist/worker/index.js"));
  await access(thread);
  expect(folder.href).toBe(pathToFileURL(`${root}/`).href);
});

test("the entry point for bundlers provides its packages before the parent's side runs", async () => {
  await write("src/shared/packages.ts", "export const packages: string[] = [];\n");
  await write("src/bundled.ts", `import { packages } from "./shared/packages.ts";\npackages.push("pino");\n`);
  await write(
    "src/index.ts",
    `import { packages } from "./shared/packages.ts";\nexport const answer: string = packages.join();\n`,
  );
  expect(await build()).toBe(0);
  expect(await import(join(root, "dist/bundled.js"))).toMatchObject({ answer: "pino" });
});
