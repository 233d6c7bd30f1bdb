import { describe, expect, test } from "vitest";
import { FRESH, PARTS, readOptions, USAGE } from "../../bench/options.ts";

describe("the command line of the benchmark", () => {
  test("without arguments every part is measured, the ratios as their goals say", () => {
    expect(readOptions([])).toMatchObject({ parts: PARTS, warm: [FRESH], tasks: 150, write: false });
  });

  test("lists and numbers are read", () => {
    const options = readOptions(["--parts=ratio,depth", "--warm=60,800", "--rounds=2", "--depths=7"]);
    expect(options).toMatchObject({ parts: ["ratio", "depth"], warm: [60, 800], rounds: 2, depths: [7] });
  });

  test("help is asked for by its long and its short name, and the usage names every option", () => {
    expect(readOptions(["--help"])).toBeUndefined();
    expect(readOptions(["-h"])).toBeUndefined();
    for (const option of ["parts", "only", "warm", "tasks", "turns", "concurrency", "rounds", "depths"])
      expect(USAGE).toContain(`--${option}=`);
    for (const flag of ["gate", "write", "help"]) expect(USAGE).toContain(`--${flag} `);
  });

  test.each([
    ["--fast", "Unknown option '--fast'"],
    ["ratio", "Unexpected argument 'ratio'"],
    ["--parts=speed", "No part is called speed"],
    ["--rounds=many", "--rounds takes a number above 0, not 'many'"],
    ["--depths=100,0", "--depths takes a number above 0, not '0'"],
  ])("%s is refused by name", (argument, message) => {
    expect(() => readOptions([argument])).toThrow(message);
  });

  test("a gate that would judge nothing is refused", () => {
    expect(() => readOptions(["--gate", "--warm=800"])).toThrow(
      "--gate judges the part ratio after 60 tasks",
    );
    expect(() => readOptions(["--gate", "--parts=burst"])).toThrow("--gate");
    expect(readOptions(["--gate", "--parts=ratio"])).toMatchObject({ gate: true });
  });
});
