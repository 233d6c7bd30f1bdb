/**
 * Puts an answer into a JSON Schema by rule. Values of the earlier text stay if it is JSON and they fit. Otherwise the first
 * string field gets the text, and each other field the least value that it allows. Pure.
 *
 * Knows the keywords that providers enforce: types, properties, items, enum, const, anyOf, allOf, `$ref` into `$defs`, sizes.
 */

/** Maximum number of references that are followed to one value. */
const MAX_REFERENCES = 16;
/** Maximum number of made-up values: a schema that refers to itself may ask for any number. Further ones are null. */
const MOST_VALUES = 10_000;
/** Maximum length of a list or text that is filled up, even if the schema requires more. */
const MOST_MADE = 1_000;

type Schema = Record<string, unknown>;

/** Returns `said` in the shape of `schema`, as JSON. */
export function shaped(schema: unknown, said: string): string {
  const shape = new Shape(schema, said);
  return JSON.stringify(shape.value(schema, parsed(said), 0) ?? null);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** One answer, which contains the text only once. */
class Shape {
  readonly #root: unknown;
  #words: string;
  #made = 0;

  constructor(root: unknown, words: string) {
    this.#root = root;
    this.#words = words.trim();
  }

  /** Returns a value that fits `schema`: the fitting parts of `known`, and made-up values for the rest. */
  value(schema: unknown, known: unknown, references: number): unknown {
    if (!isSchema(schema)) return known ?? null;
    if (known === undefined && ++this.#made > MOST_VALUES) return null;
    if (typeof schema.$ref === "string" && references < MAX_REFERENCES)
      return this.value(this.#definition(schema.$ref), known, references + 1);
    if ("const" in schema) return schema.const;
    if (Array.isArray(schema.enum)) return schema.enum.includes(known) ? known : schema.enum[0];
    const parts = [schema.anyOf, schema.oneOf].find(Array.isArray);
    if (parts) return this.value(parts.find((part) => fitsType(part, known)) ?? parts[0], known, references);
    if (Array.isArray(schema.allOf)) return this.value(joined(schema, schema.allOf), known, references);
    return this.#ofType(schema, typeOf(schema), known, references);
  }

  #definition(reference: string): unknown {
    return reference
      .split("/")
      .slice(1)
      .reduce<unknown>((part, name) => (isSchema(part) ? part[name] : undefined), this.#root);
  }

  #ofType(schema: Schema, type: unknown, known: unknown, references: number): unknown {
    switch (type) {
      case "object":
        return this.#object(schema, isSchema(known) ? known : {}, references);
      case "array": {
        const least = Math.min(Number(schema.minItems ?? 0), MOST_MADE);
        const items = Array.isArray(known) ? known : [];
        const length = Math.max(items.length, least);
        return Array.from({ length }, (_, at) => this.value(schema.items, items[at], references));
      }
      case "string":
        return typeof known === "string" ? known : this.#text(schema);
      case "number":
        return typeof known === "number" ? known : leastNumber(schema);
      case "integer":
        return Number.isInteger(known) ? known : leastNumber(schema);
      case "boolean":
        return known === true;
      default:
        return known ?? null;
    }
  }

  #object(schema: Schema, known: Schema, references: number): Schema {
    const properties = isSchema(schema.properties) ? schema.properties : {};
    const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : [];
    const names = Object.keys(properties).filter(
      (name) => required.includes(name) || Object.hasOwn(known, name),
    );
    const members = names.map(
      (name) => [name, this.value(properties[name], known[name], references)] as const,
    );
    const free = schema.additionalProperties === false ? [] : Object.entries(known);
    return Object.fromEntries([...free.filter(([name]) => !Object.hasOwn(properties, name)), ...members]);
  }

  /** Returns the text at the first call, and the shortest allowed text later. */
  #text({ minLength = 0, maxLength = MOST_MADE, format }: Schema): string {
    if (format === "date") return "1970-01-01";
    if (format === "date-time") return "1970-01-01T00:00:00Z";
    const words = [...this.#words].slice(0, Number(maxLength)).join("");
    this.#words = "";
    return words.padEnd(Math.min(Number(minLength), MOST_MADE), ".");
  }
}

/** Returns a schema with its `allOf` as one: the fields of all parts, and of each other keyword the last. */
function joined(schema: Schema, allOf: readonly unknown[]): Schema {
  const parts = [schema, ...allOf].filter(isSchema);
  const fields = parts.map((part) => part.properties).filter(isSchema);
  const required: readonly unknown[] = parts.flatMap(({ required: names }) =>
    Array.isArray(names) ? names : [],
  );
  const objects = fields.length > 0 ? { properties: merged(fields), required } : {};
  return { ...merged(parts), allOf: undefined, ...objects };
}

function merged(parts: readonly Schema[]): Schema {
  return Object.fromEntries(parts.flatMap((part) => Object.entries(part)));
}

function typeOf({ type, properties, items }: Schema): unknown {
  if (Array.isArray(type)) return type[0];
  return type ?? (properties ? "object" : items ? "array" : undefined);
}

function fitsType(schema: unknown, value: unknown): boolean {
  if (!isSchema(schema) || value === undefined) return false;
  const is = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  return schema.type === is || (schema.type === "integer" && is === "number");
}

function leastNumber({ minimum, exclusiveMinimum, maximum }: Schema): number {
  if (typeof minimum === "number") return minimum;
  if (typeof exclusiveMinimum === "number") return exclusiveMinimum + 1;
  return typeof maximum === "number" ? Math.min(0, maximum) : 0;
}
