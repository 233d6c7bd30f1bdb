/** Options as callers hand them over, with types or without: what of them cannot be used. */
import { SubagentError } from "./errors.ts";
import { Prefix } from "./protocol/ids.ts";

/** What each option must be: whether a value fits, and the end of the sentence "… must be …". */
export type OptionForms<Options> = Readonly<
  Record<keyof Options, readonly [fits: (value: unknown) => boolean, form: string]>
>;

/** `maker`: who takes the options, as in "… is no option of a worker"; `required`: those that may not be left out, default none. */
interface OptionRules {
  maker: string;
  required?: ReadonlySet<string>;
}

/**
 * What is wrong with `options`: names that are none, as a misspelt one would be left out of account without a word, and values
 * that do not fit. An option that is undefined is left out.
 */
export function optionProblems<Options extends object>(
  options: Options | undefined,
  forms: OptionForms<Options>,
  { maker, required = new Set() }: OptionRules,
): string[] {
  const given: Partial<Record<string, unknown>> = Object.fromEntries(Object.entries(options ?? {}));
  const strangers = Object.keys(given).filter((name) => !Object.hasOwn(forms, name));
  const known = Object.entries<OptionForms<Options>[keyof Options]>(forms);
  return [
    ...strangers.map((name) => `${name} is no option of ${maker}`),
    ...known.flatMap(([name, [fits, form]]) => {
      const isLeftOut = given[name] === undefined && !required.has(name);
      return isLeftOut || fits(given[name]) ? [] : [`${name} must be ${form}`];
    }),
  ];
}

/** Whether an option is a text, and not the empty one. */
export const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

/** Forms of options that several makers take. */
export const FLAG = [(value: unknown) => typeof value === "boolean", "true or false"] as const;
/** See {@link FLAG}. */
export const HOST = [isText, "a host name or an address"] as const;
/** See {@link FLAG}. */
export const PREFIX = [
  (value: unknown) => Prefix.safeParse(value).success,
  "1 to 32 characters of A-Za-z0-9._-, starting with a letter or digit",
] as const;
/** See {@link FLAG}. */
export const PORT = [
  (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 65_535,
  "a whole number from 0 to 65535",
] as const;
/** See {@link FLAG}. */
export const COUNT = [
  (value: unknown) => Number.isSafeInteger(value) && Number(value) > 0,
  "a whole number above 0",
] as const;

/** Throws `invalid_config` that says why `what` cannot be made: each of `problems`, if there are any. */
export function refuseProblems(what: string, problems: readonly string[]): void {
  if (problems.length === 0) return;
  throw new SubagentError("invalid_config", `${what} cannot be made: ${problems.join("; ")}.`, { problems });
}
