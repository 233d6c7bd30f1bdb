/** The work that every subject of the benchmark does: ask for a number of lookups, then for a summary. */

/** The model that is asked for; the scripted server takes any. */
export const MODEL = "claude-bench";
/** The system prompt of every conversation. */
export const SYSTEM = "You are a sub-agent. Use the tools, then answer with one summary paragraph.";
/** The one tool, as the Messages API takes it. */
export const LOOKUP = {
  name: "lookup",
  description: "Look something up.",
  input_schema: {
    type: "object" as const,
    properties: { q: { type: "string" }, n: { type: "integer" } },
    required: ["q", "n"],
  },
};

/** So many tasks go before a measurement: until then every subject spends its time on compiling itself. */
export const WARM_UP_TASKS = 800;

/** The size of one measurement. `concurrency` tasks side by side, each of `turns` tool turns and a last one. */
export interface Size {
  tasks: number;
  turns: number;
  concurrency: number;
  /** Bytes of a tool's result. */
  outputBytes: number;
}

/** What a subject used while it did its part. */
export interface Used {
  /** User and system CPU of its process, ms. */
  cpuMs: number;
  wallMs: number;
  rssMb: number;
}

/** The prompt that makes the scripted model ask for `turns` lookups. */
export function promptFor(turns: number): string {
  return `Please run ${turns} tools and summarise.`;
}

/** What the lookup gives back. */
export function lookupOutput(bytes: number): string {
  const sentence = "result line: lorem ipsum dolor sit amet, consectetur. ";
  return sentence.repeat(Math.ceil(bytes / sentence.length)).slice(0, bytes);
}

/** Throws unless `text` is the summary that ends the work. */
export function checkSummary(text: string): void {
  if (!text.startsWith("Summary after"))
    throw new RangeError(`not the expected summary: ${text.slice(0, 200)}`);
}

/** Does `work` `tasks` times, `concurrency` at a time; resolves to how long each took, ms. */
export async function sideBySide(
  { tasks, concurrency }: Pick<Size, "tasks" | "concurrency">,
  work: (lane: number) => Promise<void>,
): Promise<number[]> {
  const tookMs: number[] = [];
  let begun = 0;
  const lane = async (_: unknown, index: number) => {
    while (begun < tasks) {
      begun += 1;
      const startedMs = performance.now();
      await work(index);
      tookMs.push(performance.now() - startedMs);
    }
  };
  await Promise.all(Array.from({ length: Math.min(tasks, concurrency) }, lane));
  return tookMs;
}

/** Begins to meter this process; the answer tells what it used since. */
export function meter(): () => Used {
  const cpu = process.cpuUsage();
  const startedMs = performance.now();
  return () => {
    const { user, system } = process.cpuUsage(cpu);
    return {
      cpuMs: (user + system) / 1_000,
      wallMs: performance.now() - startedMs,
      rssMb: process.memoryUsage.rss() / 2 ** 20,
    };
  };
}
