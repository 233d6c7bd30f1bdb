import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { bundled, heavyPackages } from "./bundle.ts";
import { closeAtEnd } from "./cleanup.ts";

test("a program is made once of the same sources, and anew when one that it imports has changed", async () => {
  const directory = mkdtempSync(join(tmpdir(), "bundle-"));
  closeAtEnd(() => rmSync(directory, { recursive: true }));
  const [entry, imported] = [join(directory, "entry.ts"), join(directory, "imported.ts")];
  writeFileSync(entry, 'import { word } from "./imported.ts";\nconsole.log(word);\n');
  const programOf = (source: string) => {
    writeFileSync(imported, source);
    return bundled(entry);
  };
  const first = await programOf('export const word: string = "one";');
  const again = await programOf('export const word: string = "one";');
  const changed = await programOf('export const word: string = "two";');
  const said = [first, again, changed].map((file) =>
    execFileSync(process.execPath, [file], { encoding: "utf8" }),
  );
  expect([again, said]).toEqual([first, ["one\n", "one\n", "two\n"]]);
});

test("the classes of a package keep their names in a program", async () => {
  const directory = mkdtempSync(join(tmpdir(), "bundle-"));
  closeAtEnd(() => rmSync(directory, { recursive: true }));
  const entry = join(directory, "entry.ts");
  writeFileSync(
    entry,
    'import { Redis } from "ioredis";\nimport { z } from "zod";\nconsole.log(Redis.name, z.string().safeParse(1).success);\n',
  );
  const program = await bundled(entry);
  const say = () => execFileSync(process.execPath, [program], { encoding: "utf8" });
  expect(say()).toBe("Redis false\n");
  // What the first process kept of the packages' code is taken by the second.
  expect(readdirSync(await heavyPackages()).join()).toMatch(/script\.cjs\.[0-9a-f]{16}(,|$)/);
  expect(say()).toBe("Redis false\n");
});

test("a process that ends at once stores little code, and one that called more stores it in place of that", async () => {
  const directory = mkdtempSync(join(tmpdir(), "bundle-"));
  closeAtEnd(() => rmSync(directory, { recursive: true }));
  const entry = join(directory, "entry.ts");
  const functions = Array.from({ length: 50 }, () => `() => [${"Math.random(), ".repeat(60)}].length`);
  writeFileSync(
    entry,
    `const all = [${functions.join(",\n")}];\nif (process.argv[2]) console.log(await Promise.all(all.map((each) => each())));\n`,
  );
  const program = await bundled(entry);
  const storedBy = (...args: string[]) => {
    execFileSync(process.execPath, [program, ...args]);
    const [name = ""] = readdirSync(dirname(program)).filter((file) =>
      /^script\.cjs\.[0-9a-f]{16}$/.test(file),
    );
    return statSync(join(dirname(program), name)).size;
  };
  const little = storedBy();
  const more = storedBy("all");
  expect(more).toBeGreaterThan(1.5 * little);
  expect(storedBy()).toBe(more);
});

test("an entry has the default of a package as it has it where it is installed", async () => {
  const directory = mkdtempSync(join(tmpdir(), "bundle-"));
  closeAtEnd(() => rmSync(directory, { recursive: true }));
  const entry = join(directory, "entry.ts");
  writeFileSync(
    entry,
    'import picomatch from "picomatch";\nimport stringWidth from "string-width";\nconsole.log(picomatch("*.a")("b.a"), stringWidth("ab"));\n',
  );
  const said = execFileSync(process.execPath, [await bundled(entry)], { encoding: "utf8" });
  expect(said).toBe("true 2\n");
});
