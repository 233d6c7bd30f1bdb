/**
 * Structured output on the parent's side: a zod schema becomes the JSON Schema that the worker checks, and once more itself,
 * for its refinements and types. Pure.
 */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { JsonObject } from "../shared/protocol/content.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import { readInput } from "./input.ts";

/** A reply whose output a zod schema has read: there if, and only if, the run succeeded. */
export type TypedReply<T> =
  | (Omit<Reply, "status" | "output"> & { status: "succeeded"; output: T })
  | (Omit<Reply, "status" | "output"> & {
      status: Exclude<Reply["status"], "succeeded">;
      output?: undefined;
    });

/** An input with its output schema as JSON Schema, and what reads a reply's output. */
interface ReadWish {
  wish: unknown;
  typed(reply: Reply): Reply;
}

/** Takes a zod schema out of a caller's input. Throws `invalid_input` for one that has no JSON Schema form. */
export function withJsonSchema(input: unknown, what: string): ReadWish {
  if (typeof input !== "object" || input === null || !("output_schema" in input)) return asItIs(input);
  const { output_schema: schema } = input;
  if (!isZod(schema)) return asItIs(input);
  return {
    wish: { ...input, output_schema: jsonSchemaOf(schema, what) },
    typed: (reply) => read(schema, reply),
  };
}

function asItIs(wish: unknown): ReadWish {
  return { wish, typed: (reply) => reply };
}

function isZod(schema: unknown): schema is z.ZodType {
  return schema instanceof z.ZodType || (typeof schema === "object" && schema !== null && "_zod" in schema);
}

function jsonSchemaOf(schema: z.ZodType, what: string): JsonObject {
  try {
    const { $schema: _, "~standard": __, ...json } = z.toJSONSchema(schema, { io: "input" });
    return json;
  } catch {
    throw new SubagentError(
      "invalid_input",
      `${what} refused, nothing was done: output_schema has no JSON Schema form; use what JSON can hold (no dates, no bigints).`,
      { issues: [{ field: "output_schema", problem: "has no JSON Schema form" }] },
    );
  }
}

/** The reply with its output as the schema reads it; one that only the schema's own refinements refuse is partial. */
function read(schema: z.ZodType, reply: Reply): Reply {
  if (reply.status !== "succeeded" || reply.kind !== "reply") return reply;
  try {
    return { ...reply, output: readInput(schema, reply.output, "output") };
  } catch (error) {
    if (!(error instanceof SubagentError)) throw error;
    const { output: _, ...rest } = reply;
    return { ...rest, status: "partial", stop_reason: "invalid_output", error: error.message };
  }
}
