import { expect, it } from "vitest";
import { frameworksIn, importedIn, scriptsIn } from "../../../../src/offline/rules/frameworks.ts";

it.each([
  ["package.json", '{"devDependencies":{"jest":"^30.0.0"}}', "jest", "^30.0.0"],
  ["package.json", '{"scripts":{"test":"node --test test/"}}', "node:test", ""],
  ["package.json", '{"scripts":{"test":"npx mocha -r x"}}', "mocha", ""],
  ["package.json", '{"scripts":{"e2e":"playwright test"}}', "@playwright/test", ""],
  ["pyproject.toml", '[tool.pytest.ini_options]\nx = 1\n[dev]\npytest = "^8.1"', "pytest", "^8.1"],
  ["requirements.txt", "flask\npytest==8.2.0\n", "pytest", "==8.2.0"],
  ["tox.ini", "commands = pytest -q", "pytest", ""],
  ["Gemfile", "gem 'rspec', '~> 3.13'", "RSpec", "~> 3.13"],
  ["composer.json", '{"require-dev":{"phpunit/phpunit":"^11"}}', "PHPUnit", "^11"],
  ["build.gradle", "testImplementation 'org.junit.jupiter:junit-jupiter:5.10.0'", "JUnit", "5.10.0"],
  ["Cargo.toml", '[package]\nname = "x"', "cargo test (built in)", ""],
  ["go.mod", "module x\n", "go test (built in)", ""],
])("finds what %s names: %s", (file, text, name, version) => {
  expect(frameworksIn(file, text)[0]).toMatchObject({ name, version, file });
});

it("puts the framework that the test script runs first", () => {
  const text =
    '{"devDependencies":{"cypress":"1","vitest":"4"},"scripts":{"test":"vitest run","e2e":"cypress open"}}';
  expect(frameworksIn("a/package.json", text).map(({ name }) => name)).toEqual(["vitest", "cypress"]);
});

it("finds nothing in manifests without one, broken ones included", () => {
  for (const text of ['{"dependencies":{"express":"5"}}', '{"devDep', "[]", ""])
    expect(frameworksIn("package.json", text)).toEqual([]);
  expect(frameworksIn("pyproject.toml", "[project]")).toEqual([]);
  expect(scriptsIn('{"scripts":{"a":"b","c":5}}')).toEqual({ a: "b" });
});

it.each([
  [`import { test } from "vitest";`, ["vitest"]],
  [`const it = require('node:test');`, ["node:test"]],
  [`write("test/a.test.ts", 'import { test } from "vitest"');`, ["vitest"]],
  ["import pytest", ["pytest"]],
  [`import { x } from "./vitest.ts";`, []],
])("of the line %s it names the framework's package only", (line, names) => {
  expect(importedIn(line)).toEqual(names);
});
