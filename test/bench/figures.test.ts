import { describe, expect, test } from "vitest";
import { inTurn, median, ratios, span, table } from "../../bench/figures.ts";

describe("the figures of the benchmark", () => {
  test("a median is the middle value whatever the order, of an even number the upper one", () => {
    expect(median([10, 9, 100])).toBe(10);
    expect(median([4, 1, 3, 2])).toBe(3);
    expect(median([])).toBeUndefined();
  });

  test("a span shows the median with its extremes, one value alone, and a dash for none", () => {
    expect(span([0.5, 12.345, 1_234.5])).toBe("12.3 (0.500–1235)");
    expect(span([undefined, 0.7])).toBe("0.700");
    expect(span([undefined])).toBe("–");
    expect(span([-3, -250, 2])).toBe("-3.00 (-250–2.00)");
  });

  test("ratios are taken within a round, and rounds that one side lacks are left out", () => {
    const naive = new Map([
      [0, 2],
      [1, 4],
      [2, 8],
    ]);
    expect(
      ratios(
        new Map([
          [0, 1],
          [2, 2],
          [3, 9],
        ]),
        naive,
      ),
    ).toEqual([0.5, 0.25]);
    expect(ratios(new Map([[0, 1]]), new Map())).toEqual([]);
  });

  test("subjects take turns in both directions, also those of every second or third round", () => {
    const subjects = [
      { name: "a", every: 1 },
      { name: "b", every: 2 },
      { name: "c", every: 3 },
    ];
    const rounds = Array.from({ length: 8 }, (_, round) =>
      inTurn(subjects, round, ({ every }) => every)
        .map(({ name }) => name)
        .join(""),
    );
    expect(rounds).toEqual(["abc", "a", "ba", "ca", "ab", "a", "cba", "a"]);
  });

  test("a table has a head, a rule and its rows", () => {
    expect(table(["", "n"], [["x", 1]])).toEqual(["|  | n |", "| --- | --- |", "| x | 1 |"]);
  });
});
