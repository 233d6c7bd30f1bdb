/** What a parent's runs have used, by days: how the counters are stored, and their sum. Pure. */
import { z } from "zod";
import { Usage } from "./content.ts";

/** Length of a day, ms; days begin at midnight UTC and count from 1970-01-01. */
const DAY_MS = 86_400_000;
const MICRO = 1_000_000;

/**
 * Sums over runs that have ended, however they ended. `replies`: how many; `tokens`: sum of the four fields of `usage`;
 * `cost_usd`: 0 for runs whose model has no known price.
 */
export const UsageTotals = z.object({
  replies: z.int().min(0),
  turns: z.int().min(0),
  tokens: z.int().min(0),
  usage: Usage,
  cost_usd: z.number().min(0),
});
/** See {@link UsageTotals}. */
export type UsageTotals = z.infer<typeof UsageTotals>;

const Counter = z.coerce.number().int().min(0);

/** The sum over a stored record, from the day in which `sinceMs` (epoch ms) lies. Throws on a record that is not one. */
export function sumUsage(record: Readonly<Record<string, string>>, sinceMs: number): UsageTotals {
  const firstDay = Math.floor(sinceMs / DAY_MS);
  const sums: Record<string, number> = {};
  for (const [field, value] of Object.entries(record)) {
    const [day = "", counter = ""] = field.split("/");
    if (Number(day) >= firstDay) sums[counter] = (sums[counter] ?? 0) + Counter.parse(value);
  }
  const of = (counter: string) => sums[counter] ?? 0;
  const usage: Usage = {
    input_tokens: of("input_tokens"),
    output_tokens: of("output_tokens"),
    cache_read_input_tokens: of("cache_read_input_tokens"),
    cache_creation_input_tokens: of("cache_creation_input_tokens"),
  };
  return {
    replies: of("runs"),
    turns: of("turns"),
    tokens: Object.values(usage).reduce((sum, n) => sum + n, 0),
    usage,
    cost_usd: of("cost_micro_usd") / MICRO,
  };
}
