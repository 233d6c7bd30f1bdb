export function total(items) {
  console.log("computing", items);
  // TODO: take discounts into account
  return items.reduce((sum, item) => sum + item.price * item.count, 0);
}
