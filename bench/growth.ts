/** The CPU of a model call by number of turns, size of tool results, and calls a turn. */
import { inTurn, ratios, span, table } from "./figures.ts";
import type { Bench } from "./measures.ts";
import { loop, product } from "./ratio.ts";
import type { Measurement } from "./work.ts";

/** Bytes of the largest result; the product hands on at most as many characters, so neither side cuts it. */
const LARGEST = 50_000;

/** The product makes at most 30 calls a run, and the last of them has no tools. */
const MOST_TURNS = 28;

interface Cell extends Measurement {
  /** Parallel tool calls of a turn. */
  calls: number;
}

const cell = (turns: number, outputBytes: number, tasks: number, calls = 1): Cell => ({
  turns,
  outputBytes,
  tasks,
  calls,
  warmUp: Math.ceil(tasks / 2),
  concurrency: 10,
});

/** Cells with some 1,500 calls each; fewer where a call carries a megabyte. */
const CELLS = [cell(10, 500, 140), cell(MOST_TURNS, 500, 50), cell(10, LARGEST, 40), cell(10, 500, 100, 5)];

/** Measures each cell with the naive loop and with the product, which nobody watches, in alternating rounds. */
export async function growth(bench: Bench): Promise<string[]> {
  const { rounds = 3 } = bench.options;
  const found = CELLS.map((size) => ({
    size,
    own: new Map<number, number>(),
    naive: new Map<number, number>(),
  }));
  for (let round = 0; round < rounds; round++) {
    for (const { size, own, naive } of inTurn(found, round, () => 1)) {
      const setting = { bench, size, manner: { calls: size.calls } };
      const runs = [
        async () => naive.set(round, (await loop("naive")(setting)).cpuMs),
        async () => own.set(round, (await product({ watched: false })(setting)).cpuMs),
      ];
      for (const run of round % 2 === 0 ? runs : runs.toReversed()) await run();
      const said = `${size.turns} × ${size.outputBytes} × ${size.calls}`;
      const took = `${own.get(round)?.toFixed(3)} ms a call, naive ${naive.get(round)?.toFixed(3)}`;
      process.stderr.write(`growth, round ${round + 1}: ${said}: ${took}\n`);
    }
  }
  const names = ["turns", "bytes of a result", "calls a turn", "ratio", "CPU ms a call", "naive loop"];
  const lines = found.map(({ size, own, naive }) => [
    size.turns,
    size.outputBytes,
    size.calls,
    span(ratios(own, naive)),
    span([...own.values()]),
    span([...naive.values()]),
  ]);
  return [
    "## Growth with turns and results",
    "",
    `CPU of a model call, unwatched, and its ratio to the naive loop (SDK \`create\`) of the same cell and round; medians (min–max) of ${rounds} alternating rounds, after half as many tasks to warm up. A run makes at most 30 calls, so ${MOST_TURNS} turns are about the most. Results of ${LARGEST} bytes are as long as the product hands on, so neither side cuts them.`,
    "",
    ...table(names, lines),
  ];
}
