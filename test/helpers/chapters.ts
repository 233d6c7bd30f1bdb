/** A run whose conversation grows by long texts: what a summary can make shorter. */
import { z } from "zod";
import { defineTool } from "../../src/worker/tools/tool.ts";

/** The tool that every chapter calls. */
export const page = defineTool({
  name: "page",
  description: "One page.",
  input: z.object({ number: z.int() }),
  run: async ({ number }) => `page ${number}`,
});

/** A turn that ends with `text`. */
export const say = (text: string) => ({ content: [{ type: "text" as const, text }] });

/** Five turns of a scenario, each a text of 30,000 characters and a call of {@link page}. */
export const chapters = [1, 2, 3, 4, 5].map((number) => ({
  content: [
    { type: "text" as const, text: `chapter ${number}: ${"word ".repeat(6_000)}` },
    { type: "tool_use" as const, id: `toolu_${number}`, name: "page", input: { number } },
  ],
}));
