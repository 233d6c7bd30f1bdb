/** Records what the calls of a run take out of its budgets before they begin. */
import { createBudgetBook } from "../../src/shared/redis/budget.ts";
import type { Stage } from "../stage/stage.ts";

type Book = ReturnType<typeof createBudgetBook>;

/** Returns the budgets of a stage, and the amount of each reservation in them so far. */
export function watchedBudgets({ redis, keys, store }: Stage) {
  const book = createBudgetBook(redis, keys, store.timing);
  const amounts: Parameters<Book["reserve"]>[2][] = [];
  const budgets: Book = {
    ...book,
    reserve(...given) {
      amounts.push(given[2]);
      return book.reserve(...given);
    },
  };
  return { budgets, amounts };
}
