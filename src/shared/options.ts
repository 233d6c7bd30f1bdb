/** Options as callers hand them over, with types or without: what of them cannot be used. */

/** What each option must be: whether a value fits, and the end of the sentence "… must be …". */
export type OptionForms<Options> = Readonly<
  Record<keyof Options, readonly [fits: (value: unknown) => boolean, form: string]>
>;

/** `maker`: who takes the options, as in "… is no option of a worker"; `required`: those that may not be left out. */
interface OptionRules {
  maker: string;
  required: ReadonlySet<string>;
}

/**
 * What is wrong with `options`: names that are none, as a misspelt one would be left out of account without a word, and values
 * that do not fit. An option that is undefined is left out.
 */
export function optionProblems<Options extends object>(
  options: Options | undefined,
  forms: OptionForms<Options>,
  { maker, required }: OptionRules,
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
