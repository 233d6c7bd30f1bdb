/**
 * Converts a parent's JSON Schema into the form that providers enforce: objects are closed, and unsupported keywords move
 * into the description. The worker still checks the whole schema. Pure.
 */
import { isJsonObject, type JsonObject } from "../../shared/protocol/content.ts";

/** Keywords that a provider enforces everywhere in a schema. */
const KEPT = new Set(["type", "title", "description", "required", "$ref"]);
const KEPT_FORMATS = new Set([
  ...["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"],
]);
const TYPES = new Set(["object", "array", "string", "number", "integer", "boolean", "null"]);
/** Keywords that may give an object members besides its `properties`. */
const GIVES_MEMBERS = ["allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "dependencies"];

/**
 * Returns the member `format` of a request's `output_config` for this schema, as JSON. Returns "" if no provider can enforce
 * the schema (a map with free keys, an object with members from elsewhere, a recursion, a part without a type): then only the
 * instructions ask for it.
 */
export function outputFormat(schema: JsonObject): string {
  if (isRecursive(schema)) return "";
  const enforced = enforcedPart(schema);
  if (enforced === undefined) return "";
  return `"format":${JSON.stringify({ type: "json_schema", schema: enforced })}`;
}

/** Returns the part in enforceable form; undefined if it has none. */
function enforcedPart(part: unknown): JsonObject | undefined {
  if (!isJsonObject(part) || hasFurtherMembers(part)) return undefined;
  const enforced: JsonObject = {};
  const untold: string[] = [];
  for (const [keyword, value] of Object.entries(part)) {
    if (keyword === "$schema" || keyword === "$id" || keyword === "$comment") continue;
    const member = memberOf(keyword, value, part);
    if (member === undefined) return undefined;
    if (member === "untold") untold.push(`${keyword}: ${JSON.stringify(value)}`);
    else enforced[member.keyword] = member.value;
  }
  if (!isAnchored(enforced)) return undefined;
  if (enforced.type === "object") enforced.additionalProperties = false;
  if (untold.length > 0)
    enforced.description = [enforced.description, `{${untold.join(", ")}}`].filter(Boolean).join("\n\n");
  return enforced;
}

/** Checks whether an object may or must have members that its `properties` do not name: closed, it would reject them. */
function hasFurtherMembers({ type, properties, required, ...rest }: JsonObject): boolean {
  if (type !== "object" || !isJsonObject(properties)) return false;
  const isNamed = (name: unknown) => typeof name === "string" && Object.hasOwn(properties, name);
  return (
    GIVES_MEMBERS.some((keyword) => keyword in rest) || (Array.isArray(required) && !required.every(isNamed))
  );
}

type Member = { keyword: string; value: unknown } | "untold" | undefined;

function memberOf(keyword: string, value: unknown, { type }: JsonObject): Member {
  switch (keyword) {
    case "properties":
    case "$defs":
    case "definitions": {
      const parts = isJsonObject(value) ? enforcedMembers(value) : undefined;
      return parts && { keyword, value: parts };
    }
    case "items": {
      const items = enforcedPart(value);
      return items && { keyword, value: items };
    }
    case "anyOf":
    case "oneOf": {
      const parts = Array.isArray(value) ? value.map(enforcedPart) : [undefined];
      return parts.includes(undefined) ? undefined : { keyword: "anyOf", value: parts };
    }
    case "enum":
      return Array.isArray(value) && value.every(isPrimitive) ? { keyword, value } : "untold";
    case "const":
      return isPrimitive(value) ? { keyword, value } : "untold";
    case "additionalProperties":
      if (type !== "object") return "untold";
      // Undefined for a map with free keys: a closed object would reject all of them.
      return value === false ? { keyword, value } : undefined;
    case "patternProperties":
      return undefined;
    case "format":
      return typeof value === "string" && KEPT_FORMATS.has(value) ? { keyword, value } : "untold";
    case "minItems":
      return value === 0 || value === 1 ? { keyword, value } : "untold";
    default:
      return KEPT.has(keyword) ? { keyword, value } : "untold";
  }
}

function enforcedMembers(parts: JsonObject): JsonObject | undefined {
  const enforced: JsonObject = {};
  for (const [name, part] of Object.entries(parts)) {
    const member = enforcedPart(part);
    if (member === undefined) return undefined;
    Object.defineProperty(enforced, name, { value: member, enumerable: true });
  }
  return enforced;
}

/** Checks whether the part states its type; an object must name its properties. */
function isAnchored({ type, properties, anyOf, $ref, ...rest }: JsonObject): boolean {
  if (type === "object") return isJsonObject(properties);
  if (typeof type === "string") return TYPES.has(type);
  return (
    type === undefined && (anyOf !== undefined || $ref !== undefined || "enum" in rest || "const" in rest)
  );
}

function isPrimitive(value: unknown): boolean {
  return value === null || typeof value !== "object";
}

/** Checks whether the references form a cycle, or point outside the known definitions. */
function isRecursive(schema: JsonObject): boolean {
  const open = new Set<string>();
  const done = new Set<string>();
  const visit = (part: unknown): boolean => {
    if (part === null || typeof part !== "object") return false;
    if ("$ref" in part && typeof part.$ref === "string" && visitReference(part.$ref)) return true;
    return Object.values(part).some(visit);
  };
  const visitReference = (reference: string): boolean => {
    if (done.has(reference)) return false;
    const target = referenced(schema, reference);
    if (open.has(reference) || target === undefined) return true;
    open.add(reference);
    if (visit(target)) return true;
    done.add(reference);
    return false;
  };
  return visit(schema);
}

function referenced(schema: JsonObject, reference: string): unknown {
  const [, place, name] = /^#\/(\$defs|definitions)\/([^/~%]+)$/.exec(reference) ?? [];
  const places = place === undefined ? undefined : schema[place];
  return isJsonObject(places) && name !== undefined && Object.hasOwn(places, name) ? places[name] : undefined;
}
