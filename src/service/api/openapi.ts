/** The OpenAPI 3.1 document, generated from the rows of the routes and the schemas of their input and output. */
import { z } from "zod";
import { packageVersion } from "../../shared/package.ts";
import type { Route, RouteResponse } from "./route.ts";
import { SHAPES } from "./schema.ts";

type Json = { [name: string]: unknown };

const REFERENCE = "#/components/schemas/";
const INTRODUCTION =
  "Every call of a parent: hand work to sub-agents, get their replies. A reply stays in its parent's channel until it is acked, through whichever door. Errors are problem documents (RFC 9457); `code` says why, `detail` what to do.";
const TAGS: Readonly<Record<string, string>> = {
  tasks: "A prompt in, a reply out.",
  agents: "Agents that a parent manages.",
  replies: "The durable channel of a parent.",
  events: "Progress as it happens.",
  parents: "The parents of a tenant, and what their agents inherit.",
  webhooks: "Replies pushed to a URL.",
};

/** Returns the document for `routes`. */
export function openApiOf(routes: readonly Route[]): Json {
  const named = namedSchemas();
  const paths: Record<string, Json> = {};
  for (const row of routes) {
    const path = paths[row.path] ?? { parameters: pathParameters(row.path) };
    path[row.method] = operationOf(row, named);
    paths[row.path] = path;
  }
  const used = new Set(routes.map(({ tag }) => tag));
  return {
    openapi: "3.1.0",
    info: {
      title: "subagent-queue",
      version: packageVersion(),
      description: INTRODUCTION,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    security: [{ key: [] }],
    tags: [...used].map((name) => ({ name, description: TAGS[name] ?? name })),
    paths,
    components: {
      securitySchemes: {
        key: {
          type: "http",
          scheme: "bearer",
          description:
            "`saq_<id>_<secret>`, as `subagent-queue keys create` shows it. Its tenant is the request's.",
        },
      },
      schemas: named.schemas,
    },
  };
}

interface NamedSchemas {
  schemas: Record<string, Json>;
  names: ReadonlyMap<z.ZodType, string>;
}

function namedSchemas(): NamedSchemas {
  const names = new Map<z.ZodType, string>();
  const schemas: Record<string, Json> = {};
  for (const io of ["input", "output"] as const) {
    const registry = z.registry<{ id: string }>();
    for (const [id, schema] of Object.entries<z.ZodType>(SHAPES[io])) {
      registry.add(schema, { id });
      names.set(schema, id);
    }
    const made = z.toJSONSchema(registry, { io, uri: (id) => `${REFERENCE}${id}`, unrepresentable: "any" });
    for (const [id, schema] of Object.entries(made.schemas)) schemas[id] = withoutAddress({ ...schema });
  }
  return { schemas, names };
}

/** Removes a schema's address and id: in the document its position is its address. */
function withoutAddress({ $id: _, $schema: __, id: ___, ...schema }: Json): Json {
  return schema;
}

function schemaOf(schema: z.ZodType, { names }: NamedSchemas, io: "input" | "output"): Json {
  const name = names.get(schema);
  if (name !== undefined) return { $ref: `${REFERENCE}${name}` };
  return withoutAddress({ ...z.toJSONSchema(schema, { io, unrepresentable: "any" }) });
}

function operationOf(row: Route, named: NamedSchemas): Json {
  const parameters = [...queryParameters(row, named), ...(row.isRepeatable ? [IDEMPOTENCY] : [])];
  return {
    operationId: row.id,
    summary: row.says,
    description: `Scope: \`${row.scope}\`.`,
    tags: [row.tag],
    ...(parameters.length > 0 && { parameters }),
    ...(row.body && {
      requestBody: {
        required: true,
        content: { "application/json": { schema: schemaOf(row.body, named, "input") } },
      },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(row.answers).map(([status, answer]) => [status, responseOf(answer, named)]),
      ),
      "4XX": PROBLEM,
      "5XX": PROBLEM,
    },
  };
}

function responseOf({ says, schema, media }: RouteResponse, named: NamedSchemas): Json {
  const content: Json = {};
  if (schema) content["application/json"] = { schema: schemaOf(schema, named, "output") };
  if (media === "text/event-stream") content[media] = { schema: { type: "string" } };
  else if (media !== undefined) content[media] = {};
  return { description: says, ...(Object.keys(content).length > 0 && { content }) };
}

function queryParameters({ query }: Route, named: NamedSchemas): Json[] {
  if (!query) return [];
  return Object.entries<z.ZodType>(query.shape).map(([name, schema]) => ({
    name,
    in: "query",
    description: schema.description ?? name,
    schema: schemaOf(schema, named, "input"),
  }));
}

const PATH_PARAMETERS: Readonly<Record<string, string>> = {
  parent: "The parent's id: 1 to 64 characters of A-Za-z0-9._-, starting with a letter or digit.",
  agent: "The agent's id, as returned by spawn.",
  path: "A file's path, as the list of files says it.",
};

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    description: PATH_PARAMETERS[name] ?? name,
    schema: { type: "string" },
  }));
}

const IDEMPOTENCY: Json = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "Makes the request repeatable for 24 hours, a task until a day after its ack: the same request with the same key is carried out once.",
  schema: { type: "string", minLength: 1, maxLength: 130 },
};

const PROBLEM: Json = {
  description: "The error and its remedy.",
  content: { "application/problem+json": { schema: { $ref: `${REFERENCE}Problem` } } },
};
