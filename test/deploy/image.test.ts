/** Dockerfile and .dockerignore, instruction by instruction. `npm run check:image` runs their steps. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT, readRepositoryFile } from "./repository.ts";

interface Instruction {
  name: string;
  rest: string;
}

const lines = readRepositoryFile("Dockerfile").split("\n");
const instructions: Instruction[] = lines
  .filter((line) => line.trim() !== "" && !line.startsWith("#"))
  .map((line) => {
    const [name = "", ...rest] = line.split(" ");
    return { name, rest: rest.join(" ") };
  });
const lastFrom = instructions.findLastIndex(({ name }) => name === "FROM");
const buildStage = instructions.slice(0, lastFrom);
const finalStage = instructions.slice(lastFrom);
const of = (stage: Instruction[], name: string) =>
  stage.filter((instruction) => instruction.name === name).map(({ rest }) => rest);
const ignored = readRepositoryFile(".dockerignore")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"));

test("every instruction is one that this file knows how to judge", () => {
  const known = ["ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD"];
  for (const { name } of instructions) expect(known).toContain(name);
});

test("both stages stand on one Node image, of a version that the package supports", () => {
  expect(of(instructions, "FROM")).toEqual([`\${NODE_IMAGE} AS build`, `\${NODE_IMAGE}`]);
  const major = /^NODE_IMAGE=node:(\d+)-slim$/.exec(of(buildStage, "ARG")[0] ?? "")?.[1];
  expect(Number(major)).toBeGreaterThanOrEqual(20);
});

test("dependencies come from the lock file without install scripts, and development ones stay behind", () => {
  const run = of(buildStage, "RUN").join("\n");
  expect(run).toMatch(/^npm ci .*--ignore-scripts/);
  expect(run).toMatch(/npm run build && npm pkg delete devDependencies && npm prune --omit=dev/);
});

test("the image runs as a user without rights and is stopped by SIGTERM, which reaches Node itself", () => {
  expect(of(finalStage, "USER")).toEqual(["node"]);
  expect(of(finalStage, "STOPSIGNAL")).toEqual(["SIGTERM"]);
  expect(of(finalStage, "ENTRYPOINT")).toEqual(['["node", "/app/dist/cli/main.js"]']);
  expect(of(finalStage, "CMD")).toEqual(['["worker"]']);
  const names = finalStage.map(({ name }) => name);
  expect(names.indexOf("USER")).toBeGreaterThan(names.lastIndexOf("COPY"));
});

test("only built files, the page and what runs them reach the image, and no secret does", () => {
  expect(of(finalStage, "COPY")).toEqual([
    "LICENSE package.json ./",
    "web web",
    "--from=build /app/node_modules node_modules",
    "--from=build /app/dist dist",
  ]);
  expect([...of(instructions, "ENV"), ...of(instructions, "ARG")].join("\n")).not.toMatch(
    /KEY|TOKEN|PASSWORD|SECRET/,
  );
});

test("the context holds exactly what is copied from it", () => {
  const copied = of(instructions, "COPY")
    .filter((rest) => !rest.startsWith("--from"))
    .flatMap((rest) => rest.split(" ").slice(0, -1));
  expect(ignored[0]).toBe("*");
  const allowed = ignored.slice(1).map((line) => line.replace(/^!/, ""));
  expect(allowed.sort()).toEqual([...new Set(copied)].sort());
  for (const path of allowed) expect(existsSync(join(ROOT, path)), path).toBe(true);
});
