/** The environment variables: the form each must have, its default and what it becomes. Pure; `config.ts` reads them. */
import { z } from "zod";
import { LOG_LEVELS } from "./logger.ts";
import { ParentId, TenantId } from "./protocol/ids.ts";
import { CEILING } from "./protocol/limits.ts";
import { isRedisUrl, REDIS_URL_FORMS } from "./redis-url.ts";

/** Model used when a provider is configured and SUBAGENT_MODEL is not set. */
export const DEFAULT_MODEL = "claude-sonnet-5-5";
/** Model id asked for when nothing but the offline model is there. */
export const OFFLINE_MODEL = "offline-1";
/** First part of every Redis name when SUBAGENT_PREFIX is not set. */
export const DEFAULT_PREFIX = "saq";
/** The parent that the command line acts as when SUBAGENT_PARENT is not set. */
const DEFAULT_PARENT = "cli";

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;
const DURATION = /^(\d{1,9})(ms|s|m|h)$/;

const whole = (max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .pipe(z.int().min(1).max(max));
const url = (...schemes: string[]) =>
  z.string().refine((text) => {
    if (!URL.canParse(text)) return false;
    const parsed = new URL(text);
    return schemes.includes(parsed.protocol) && parsed.hostname !== "";
  });
const durationMs = z
  .string()
  .regex(DURATION)
  .transform((text) => {
    const [, count, unit] = DURATION.exec(text) ?? [];
    return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
  })
  .pipe(z.int().min(1).max(CEILING.max_duration_ms));

/** Every variable this program reads; absent ones take the default that stands here. */
export const Variables = z.object({
  REDIS_URL: z.string().refine(isRedisUrl).optional(),
  ANTHROPIC_API_KEY: z
    .string()
    .regex(/^[\x21\x23-\x26\x28-\x7e]{1,512}$/)
    .optional(),
  ANTHROPIC_BASE_URL: url("http:", "https:").optional(),
  SUBAGENT_MODEL: z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/)
    .optional(),
  SUBAGENT_PREFIX: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/)
    .default(DEFAULT_PREFIX),
  SUBAGENT_TENANT: TenantId.default("default"),
  SUBAGENT_PARENT: ParentId.default(DEFAULT_PARENT),
  SUBAGENT_ROOTS: z.string().optional(),
  SUBAGENT_WORKSPACES: z
    .string()
    .refine((path) => !path.includes("\0"))
    .default("./.subagent-queue/workspaces"),
  SUBAGENT_CONCURRENCY: whole(1_000).default(50),
  SUBAGENT_HEALTH_PORT: whole(65_535).optional(),
  SUBAGENT_MAX_TURNS: whole(CEILING.max_turns).optional(),
  SUBAGENT_MAX_TOKENS: whole(CEILING.max_tokens).optional(),
  SUBAGENT_MAX_DURATION: durationMs.optional(),
  SUBAGENT_MAX_TOTAL_TOKENS: whole(CEILING.max_total_tokens).optional(),
  SUBAGENT_MAX_COST_USD: z
    .string()
    .regex(/^\d{1,9}(\.\d{1,9})?$/)
    .transform(Number)
    .pipe(z.number().positive().max(CEILING.max_cost_usd))
    .optional(),
  SUBAGENT_PRICES: z.string().optional(),
  SUBAGENT_LOG_LEVEL: z.enum(LOG_LEVELS).optional(),
  SUBAGENT_TRACE: z.enum(["off", "full"]).default("off"),
  NODE_ENV: z.string().optional(),
});
/** The values of {@link Variables}, checked and converted. */
export type Variables = z.infer<typeof Variables>;
/** The name of a variable this program reads. */
export type VariableName = keyof Variables;

const PRICES_EXAMPLE = '{"my-model": {"input": 1, "output": 5, "cache_read": 0.1, "cache_write": 1.25}}';

/** The form of a parent's id, as the end of "write …". */
export const PARENT_FORM =
  "1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit; not a sub-agent's uid";

/** Every variable and the form its value must have, as the end of "write …". */
export const EXPECTED: Readonly<Record<VariableName, string>> = {
  REDIS_URL: REDIS_URL_FORMS,
  ANTHROPIC_API_KEY: "the key alone: no spaces, no quotes, at most 512 characters",
  ANTHROPIC_BASE_URL: "http://host:port or https://host",
  SUBAGENT_MODEL: `a model id without spaces, e.g. ${DEFAULT_MODEL}`,
  SUBAGENT_PREFIX: "1 to 32 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit",
  SUBAGENT_TENANT: "1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit",
  SUBAGENT_PARENT: PARENT_FORM,
  SUBAGENT_ROOTS: "absolute directories with their modes, e.g. /srv/repo:ro,/data:rw",
  SUBAGENT_WORKSPACES: "the path of a directory",
  SUBAGENT_CONCURRENCY: "a whole number from 1 to 1000",
  SUBAGENT_HEALTH_PORT: "a port from 1 to 65535",
  SUBAGENT_MAX_TURNS: `a whole number from 1 to ${CEILING.max_turns}`,
  SUBAGENT_MAX_TOKENS: `a whole number from 1 to ${CEILING.max_tokens}`,
  SUBAGENT_MAX_DURATION: "a duration of at most 24h, e.g. 30m, 90s or 500ms",
  SUBAGENT_MAX_TOTAL_TOKENS: `a whole number from 1 to ${CEILING.max_total_tokens}`,
  SUBAGENT_MAX_COST_USD: `a number above 0 and up to ${CEILING.max_cost_usd}, e.g. 2.50`,
  SUBAGENT_PRICES: `USD per million tokens as JSON or the path of a JSON file, e.g. ${PRICES_EXAMPLE}`,
  SUBAGENT_LOG_LEVEL: `one of ${LOG_LEVELS.join(", ")}`,
  SUBAGENT_TRACE: "off or full",
  NODE_ENV: "any text; production switches the production checks on",
};
