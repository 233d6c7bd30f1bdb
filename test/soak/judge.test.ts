import { expect, test } from "vitest";
import { seeded } from "../helpers/seeded.ts";
import { judgeFlat, judgeLag, judgeMemory, median, robustSlope } from "./judge.ts";
import { textPlot } from "./plot.ts";
import { judgeStrikes } from "./run.ts";

/** Two hours of samples, one each ten seconds, around a line, with the saw teeth and the outliers of a real process. */
function memory(perHour: number, hours = 2, noiseMb = 3) {
  const chance = seeded(7);
  return Array.from({ length: hours * 360 }, (_, i) => ({
    x: i / 360,
    y: 100 + (perHour * i) / 360 + noiseMb * (chance.next() - 0.5) + (i % 97 === 0 ? 80 : 0),
  }));
}

test("the robust slope finds the line behind noise and outliers, and says how sure it is", () => {
  const slope = robustSlope(memory(5));
  expect(slope?.perHour).toBeCloseTo(5, 0);
  expect(slope?.lower).toBeLessThan(5);
  expect(slope?.upper).toBeGreaterThan(5);
  expect(robustSlope(memory(5).slice(0, 2))).toBeUndefined();
});

test.each([
  [0, 2, "holds"],
  [-3, 2, "holds"],
  [2, 2, "fails"],
  [40, 0.2, "too short to judge"],
  [600, 0.2, "fails"],
  [0, 0.01, "too short to judge"],
] as const)("memory that grows by %d MB/h for %d hours is judged: %s", (perHour, hours, verdict) => {
  expect(judgeMemory("m", memory(perHour, hours), 1)).toMatchObject({ verdict });
});

test("a slope whose bounds lie on both sides of the limit is not judged", () => {
  expect(judgeMemory("m", memory(1, 1, 30), 1)).toMatchObject({ verdict: "too short to judge" });
});

test("a slope that is smaller than the swing of the memory is not judged; a larger one is a leak", () => {
  const swinging = (perHour: number) =>
    memory(perHour).map(({ x, y }) => ({ x, y: y + (Math.floor(x * 3) % 3) * 20 }));
  expect(judgeMemory("m", swinging(3), 1)).toMatchObject({ verdict: "too short to judge" });
  expect(judgeMemory("m", swinging(30), 1)).toMatchObject({ verdict: "fails" });
});

test("descriptors are flat when the last quarter is where the first was, whatever lies between", () => {
  const wave = Array.from({ length: 40 }, (_, i) => 30 + (i % 5));
  expect(judgeFlat("d", wave, 8).verdict).toBe("holds");
  expect(
    judgeFlat(
      "d",
      wave.map((n, i) => n + i),
      8,
    ).verdict,
  ).toBe("fails");
  expect(judgeFlat("d", [1, 2, 3], 8).verdict).toBe("too short to judge");
});

test("lag counts only where an idle process was not held up too", () => {
  const window = (lagMs: number, idleLagMs: number) => ({ lagMs, idleLagMs });
  const calm = Array.from({ length: 100 }, () => window(5, 1));
  const busyMachine = Array.from({ length: 50 }, () => window(500, 400));
  expect(judgeLag("l", [...calm, ...busyMachine], 100).verdict).toBe("holds");
  expect(judgeLag("l", [...calm, window(500, 1), window(300, 1), window(200, 1)], 100).verdict).toBe("fails");
  expect(judgeLag("l", busyMachine, 100).verdict).toBe("too short to judge");
});

test("faults that strike idle places are no faults", () => {
  const strikes = (...hits: number[]) => hits.map((hit) => ({ hit }));
  expect(judgeStrikes(strikes(3, 0)).verdict).toBe("holds");
  expect(judgeStrikes(strikes(3, 0, 0)).verdict).toBe("fails");
  expect(judgeStrikes([]).verdict).toBe("too short to judge");
});

test("the median of nothing is no number", () => {
  expect(median([])).toBeNaN();
  expect(median([3, 1, 2])).toBe(2);
  expect(median([4, 1, 2, 3])).toBe(2.5);
});

test("a plot shows each series by its glyph, its bounds at the axis, and the faults below", () => {
  const points = [0, 1, 2].map((x) => ({ x, y: x * 10 }));
  const flat = points.map(({ x }) => ({ x, y: 5 }));
  const plot = textPlot({
    title: "t",
    series: [
      { name: "a", points },
      { name: "b", points: flat },
    ],
    marks: [1],
  });
  expect(plot).toContain("t   ● a  ○ b");
  expect(plot).toMatch(/^ +20\.0 │ +●$/m);
  expect(plot).toMatch(/^ +0\.0 │●/m);
  expect(plot).toMatch(/└─+┴─+$/m);
  expect(plot.match(/○/g)).toHaveLength(4);
  expect(textPlot({ title: "nothing", series: [], marks: [] })).toContain("nothing");
});
