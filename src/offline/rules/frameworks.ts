/** Finds testing frameworks in the text of a package manifest. Pure. */

/** A framework that a manifest names. */
export interface Framework {
  name: string;
  /** The version range as written, `""` when the manifest names none. */
  version: string;
  file: string;
  /** Where in the file it stands, as the end of a sentence. */
  evidence: string;
}

/** File names that may name a testing framework, most telling first. */
export const MANIFESTS = [
  "package.json",
  "pyproject.toml",
  "setup.cfg",
  "tox.ini",
  "requirements.txt",
  "requirements-dev.txt",
  "Gemfile",
  "composer.json",
  "pom.xml",
  "build.gradle",
  "build.gradle.kts",
  "Cargo.toml",
  "go.mod",
] as const;

const IMPORTED = `(?:from|require\\(|import)\\s*["'](vitest|node:test|@jest/globals|mocha|ava|tap|uvu)["']`;

/** Pattern for `grep`: lines that import a testing framework. */
export const IMPORTS = `${IMPORTED}|^import pytest\\b`;

const JAVASCRIPT = [
  "vitest",
  "jest",
  "mocha",
  "ava",
  "tap",
  "jasmine",
  "uvu",
  "qunit",
  "tape",
  "karma",
  "node-tap",
  "lab",
  "@playwright/test",
  "cypress",
  "testcafe",
  "nightwatch",
  "webdriverio",
  "japa",
];
const RUNNERS: readonly [RegExp, string][] = [
  [/\bnode\b[^&|;]*\s--test\b/, "node:test"],
  [/\bbun test\b/, "bun test"],
  [/\bdeno test\b/, "deno test"],
];
const PYTHON = /\.(?:toml|cfg|ini|txt)$/;
const JAVA = /pom\.xml$|\.gradle(?:\.kts)?$/;
/** File name, what names the framework there (a group holds the version), name. */
const ELSEWHERE: readonly [RegExp, RegExp, string][] = [
  [PYTHON, /\bpytest\b["'\s]*(?:=\s*["'])?([<>=~!^]{0,2}\s*\d[\w.]*)?/g, "pytest"],
  [PYTHON, /\bnose2\b/g, "nose2"],
  [PYTHON, /\bunittest\b/g, "unittest"],
  [/Gemfile$/, /\bgem\s+["']rspec(?:-rails)?["'](?:,\s*["']([^"']+)["'])?/g, "RSpec"],
  [/Gemfile$/, /\bgem\s+["']minitest["'](?:,\s*["']([^"']+)["'])?/g, "minitest"],
  [/composer\.json$/, /"phpunit\/phpunit"\s*:\s*"([^"]+)"/g, "PHPUnit"],
  [/composer\.json$/, /"pestphp\/pest"\s*:\s*"([^"]+)"/g, "Pest"],
  [JAVA, /\bjunit\b(?:[\w.:-]*:(\d[\w.]*))?/gi, "JUnit"],
  [JAVA, /\btestng\b/gi, "TestNG"],
  [/Cargo\.toml$/, /\[package\]/g, "cargo test (built in)"],
  [/go\.mod$/, /^module\s/gm, "go test (built in)"],
];

/** Every framework that a manifest names; the one that the `test` script runs comes first. */
export function frameworksIn(file: string, text: string): Framework[] {
  return file.endsWith("package.json") ? inPackageJson(file, text) : inOtherManifest(file, text);
}

/** The frameworks that a line imports: their packages only, whatever else it quotes. */
export function importedIn(line: string): string[] {
  const names = [...line.matchAll(new RegExp(IMPORTED, "g"))].map(([, name = ""]) => name);
  return names.length === 0 && /^import pytest\b/.test(line) ? ["pytest"] : names;
}

/** The scripts of a package.json by name; empty when the file is not one. */
export function scriptsIn(text: string): Record<string, string> {
  return stringsIn(parse(text).scripts);
}

function inPackageJson(file: string, text: string): Framework[] {
  const manifest = parse(text);
  const scripts = Object.entries(stringsIn(manifest.scripts)).sort(
    ([a], [b]) => Number(b === "test") - Number(a === "test"),
  );
  const listed = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"].flatMap(
    (section) =>
      Object.entries(stringsIn(manifest[section])).map(([name, version]) => ({ name, version, section })),
  );
  const found = new Map<string, Framework>();
  for (const { name, version, section } of listed.filter((entry) => JAVASCRIPT.includes(entry.name))) {
    found.set(name, { name, version, file, evidence: `it stands under ${section}` });
  }
  for (const [script, command] of scripts) {
    const runs = `the script "${script}" runs \`${command}\``;
    for (const name of namesIn(command)) {
      const known = found.get(name);
      if (known === undefined) found.set(name, { name, version: "", file, evidence: runs });
      else if (!known.evidence.includes(" runs ")) known.evidence += `, and ${runs}`;
    }
  }
  const main = namesIn(stringsIn(manifest.scripts).test ?? "");
  return [...found.values()].sort((a, b) => Number(main.includes(b.name)) - Number(main.includes(a.name)));
}

function namesIn(command: string): string[] {
  const words = command.split(/[\s&|;]+/).map((word) => word.replace(/^.*node_modules\/(?:\.bin\/)?/, ""));
  const direct = JAVASCRIPT.filter(
    (name) => words.includes(name) || (name === "@playwright/test" && words.includes("playwright")),
  );
  return [...direct, ...RUNNERS.filter(([pattern]) => pattern.test(command)).map(([, name]) => name)];
}

function inOtherManifest(file: string, text: string): Framework[] {
  return ELSEWHERE.filter(([fileName]) => fileName.test(file)).flatMap(([, pattern, name]) => {
    const matches = [...text.matchAll(pattern)];
    const version = matches.map((match) => match[1]?.trim()).find((range) => range !== undefined) ?? "";
    return matches.length === 0 ? [] : [{ name, version, file, evidence: "it is named there" }];
  });
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}

function stringsIn(value: unknown): Record<string, string> {
  const entries = isRecord(value) ? Object.entries(value) : [];
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
