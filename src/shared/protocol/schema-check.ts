/**
 * Checks whether a JSON Schema can be used: each keyword for schemas holds schemas, each `type` is one, each pattern can be
 * parsed. Each reference leads to a schema within it, and none leads back to itself. Checks no values. Pure.
 */
import { isJsonObject, type JsonObject } from "./content.ts";
import { quoted } from "./text.ts";

const MAX_PATTERN_CHARS = 1_000;
const TYPES: readonly unknown[] = ["null", "boolean", "object", "array", "number", "string", "integer"];
/** Keywords that hold a schema. */
const ONE = [
  "additionalItems",
  "additionalProperties",
  "contains",
  "else",
  "if",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties",
];
/** Keywords that hold a list of schemas. */
const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"];
/** Keywords that hold schemas by name. */
const NAMED = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];
/** Keywords whose schemas apply to the same value. */
const SAME_VALUE = ["allOf", "anyOf", "oneOf", "not", "if"];

/** Returns one clause with the reason why the schema cannot be used, and the place; undefined if it can. */
export function unusableSchema(root: JsonObject): string | undefined {
  const names = namesWithin(root);
  const targetOf = (reference: unknown) => (names ? leadsTo(root, names, reference) : true);
  const places = new Map<object, string>();
  const open: [at: string, schema: unknown][] = [["#", root]];
  for (const [at, schema] of open) {
    if (typeof schema === "boolean") continue;
    if (!isJsonObject(schema)) return `has no schema at ${quoted(at)}`;
    if (places.has(schema)) continue;
    places.set(schema, at);
    const problem = problemAt(at, schema);
    if (problem !== undefined) return problem;
    if (schema.$ref !== undefined) {
      const target = targetOf(schema.$ref);
      if (target === undefined)
        return `has a $ref to ${quoted(String(schema.$ref))} at ${quoted(at)}, where nothing is`;
      open.push([String(schema.$ref), target]);
    }
    for (const part of partsOf(at, schema)) open.push(part);
  }
  const circle = circleAmong(places, targetOf);
  return circle && `leads from ${quoted(circle)} back to itself, whatever a value holds`;
}

/** Returns the problem of the schema itself, without the schemas within it. */
function problemAt(at: string, { $ref, type, pattern, patternProperties }: JsonObject): string | undefined {
  if ($ref !== undefined && typeof $ref !== "string") return `has a $ref at ${quoted(at)} that is no text`;
  if ($ref !== undefined && !$ref.startsWith("#"))
    return `has a $ref to ${quoted($ref)}: put what it names under $defs`;
  const types: unknown[] = Array.isArray(type) ? type : [type];
  const odd = types.length === 0 ? "[]" : types.find((one) => one !== undefined && !TYPES.includes(one));
  if (odd !== undefined)
    return `has the type ${quoted(String(odd))} at ${quoted(`${at}/type`)}: use ${TYPES.join(", ")}`;
  const names = Object.keys(isJsonObject(patternProperties) ? patternProperties : {});
  return (
    (pattern !== undefined ? patternProblem(`${at}/pattern`, [pattern]) : undefined) ??
    patternProblem(`${at}/patternProperties`, names)
  );
}

function patternProblem(at: string, patterns: readonly unknown[]): string | undefined {
  for (const pattern of patterns) {
    if (typeof pattern === "string" && pattern.length > MAX_PATTERN_CHARS)
      return `has a pattern of more than ${MAX_PATTERN_CHARS} characters at ${quoted(at)}`;
    if (typeof pattern !== "string" || !isExpression(pattern))
      return `has a pattern at ${quoted(at)} that is no regular expression of JavaScript with its flag u`;
  }
  return undefined;
}

/** Returns true for a valid expression. V8 only parses it here, in linear time; it compiles one on its first run. */
function isExpression(pattern: string): boolean {
  try {
    return new RegExp(pattern, "u").unicode;
  } catch {
    return false;
  }
}

/** Yields the values where schemas must be, with their places; undefined where a list or map of schemas has another type. */
function* partsOf(at: string, schema: JsonObject): Iterable<[at: string, schema: unknown]> {
  const { items } = schema;
  for (const keyword of ONE) if (schema[keyword] !== undefined) yield [`${at}/${keyword}`, schema[keyword]];
  if (items !== undefined && !Array.isArray(items)) yield [`${at}/items`, items];
  for (const keyword of Array.isArray(items) ? [...LISTS, "items"] : LISTS) {
    const list = schema[keyword];
    const parts: unknown[] = Array.isArray(list) ? list : [];
    for (const [index, part] of parts.entries()) yield [`${at}/${keyword}/${index}`, part];
    if (list !== undefined && !Array.isArray(list)) yield [`${at}/${keyword}`, undefined];
  }
  for (const keyword of NAMED) {
    const named = schema[keyword];
    if (isJsonObject(named))
      for (const [name, part] of Object.entries(named)) yield [`${at}/${keyword}/${name}`, part];
    else if (named !== undefined) yield [`${at}/${keyword}`, undefined];
  }
}

/** Returns the named parts of a schema; undefined if parts are documents of their own, whose references are not followed. */
function namesWithin(root: JsonObject): ReadonlyMap<string, JsonObject> | undefined {
  const names = new Map<string, JsonObject>();
  const open: unknown[] = [root];
  for (const part of open) {
    if (typeof part !== "object" || part === null) continue;
    open.push(...Object.values(part));
    if (!isJsonObject(part)) continue;
    if (typeof part.$anchor === "string") names.set(part.$anchor, part);
    for (const id of [part.$id, part.id]) {
      if (typeof id !== "string") continue;
      if (id.startsWith("#")) names.set(id.slice(1), part);
      else if (part !== root) return undefined;
    }
  }
  return names;
}

/** Returns the schema that a reference within `root` names; undefined if there is none. */
function leadsTo(
  root: JsonObject,
  names: ReadonlyMap<string, JsonObject>,
  reference: unknown,
): JsonObject | boolean | undefined {
  const fragment = decoded(String(reference).slice(1));
  if (fragment === undefined) return undefined;
  if (fragment !== "" && !fragment.startsWith("/")) return names.get(fragment);
  let target: unknown = root;
  for (const step of fragment.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof target !== "object" || target === null || !Object.hasOwn(target, name)) return undefined;
    target = Reflect.get(target, name);
  }
  return typeof target === "boolean" || isJsonObject(target) ? target : undefined;
}

function decoded(fragment: string): string | undefined {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return undefined;
  }
}

/** Returns the place of a schema that applies itself to the same value again and so never ends; undefined if there is none. */
function circleAmong(
  places: ReadonlyMap<object, string>,
  targetOf: (reference: unknown) => JsonObject | boolean | undefined,
): string | undefined {
  const isOver = new Map<object, boolean>();
  const circleFrom = (schema: unknown): string | undefined => {
    if (!isJsonObject(schema) || isOver.get(schema)) return undefined;
    if (isOver.has(schema)) return places.get(schema) ?? "#";
    isOver.set(schema, false);
    const next =
      schema.$ref === undefined ? SAME_VALUE.flatMap((keyword) => schema[keyword]) : [targetOf(schema.$ref)];
    for (const part of next) {
      const circle = circleFrom(part);
      if (circle !== undefined) return circle;
    }
    isOver.set(schema, true);
    return undefined;
  };
  for (const schema of places.keys()) {
    const circle = circleFrom(schema);
    if (circle !== undefined) return circle;
  }
  return undefined;
}
