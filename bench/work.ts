/** The work of every subject of the benchmark: a number of lookups, then a summary. */

/** Model id of the calls; the scripted server accepts any. */
export const MODEL = "claude-bench";
/** The system prompt of every conversation. */
export const SYSTEM = "You are a sub-agent. Use the tools, then answer with one summary paragraph.";
/** The only tool, in the form of the Messages API. */
export const LOOKUP = {
  name: "lookup",
  description: "Look something up.",
  input_schema: {
    type: "object" as const,
    properties: { q: { type: "string" }, n: { type: "integer" } },
    required: ["q", "n"],
  },
};

/** The size of one measurement: `concurrency` tasks in parallel, each of `turns` tool turns and a last turn. */
export interface Size {
  tasks: number;
  turns: number;
  concurrency: number;
  /** Bytes of a tool's result. */
  outputBytes: number;
}

/** A size with the number of tasks before it: a new process spends much CPU on JIT compilation. */
export interface Measurement extends Size {
  warmUp: number;
}

/** Resources that a subject used during a measurement. */
export interface Used {
  /** User and system CPU of its process, ms. */
  cpuMs: number;
  wallMs: number;
  rssMb: number;
}

/** Returns the prompt that makes the scripted model request `turns` lookups. */
export function promptFor(turns: number): string {
  return `Please run ${turns} tools and summarise.`;
}

/** Returns a lookup result of `bytes` bytes. */
export function lookupOutput(bytes: number): string {
  const sentence = "result line: lorem ipsum dolor sit amet, consectetur. ";
  return sentence.repeat(Math.ceil(bytes / sentence.length)).slice(0, bytes);
}

/** Throws unless `text` is the expected summary. */
export function checkSummary(text: string): void {
  if (!text.startsWith("Summary after"))
    throw new RangeError(`not the expected summary: ${text.slice(0, 200)}`);
}

/** Does `work` `tasks` times, `concurrency` at a time; resolves to the duration of each, ms. */
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

/** Starts to meter this process; the returned function gives its usage since then. */
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
