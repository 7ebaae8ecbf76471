// The code that built-in requests are about, of our own writing; about half of it has a bug.
#include "corpus/seed_texts.h"

namespace specbound {
namespace {

constexpr const char* kSnippets[] = {
    R"code(```python
def average_by_group(rows):
    totals = {}
    for group, value in rows:
        totals[group] = totals.get(group, 0) + value
    return {group: total / len(rows) for group, total in totals.items()}


rows = [("a", 3), ("b", 10), ("a", 5)]
print(average_by_group(rows))
```)code",
    R"code(```python
class Basket:
    def __init__(self, prices={}):
        self.prices = prices

    def add(self, name, price, count=1):
        self.prices[name] = self.prices.get(name, 0) + price * count

    def remove(self, name):
        if name not in self.prices:
            raise KeyError(f"no {name} in the basket")
        del self.prices[name]

    def total(self):
        return round(sum(self.prices.values()), 2)
```)code",
    R"code(def common_words(first, second):
    result = []
    for word in first.lower().split():
        for other in second.lower().split():
            if word == other and word not in result:
                result.append(word)
    return sorted(result))code",
    R"code(```python
import re
from collections import Counter


def errors_per_hour(path):
    pattern = re.compile(r"^\d{4}-\d\d-\d\d (\d\d):\d\d:\d\d ERROR")
    hours = Counter()
    with open(path, encoding="utf-8") as log:
        for line in log:
            match = pattern.match(line)
            if match:
                hours[int(match.group(1))] += 1
    return hours
```)code",
    R"code(```javascript
async function loadUsers(ids) {
  const users = [];
  ids.forEach(async (id) => {
    const response = await fetch(`/api/users/${id}`);
    users.push(await response.json());
  });
  return users;
}
```)code",
    R"code(function debounce(callback, delay) {
  let timer = null;
  return function (...args) {
    clearTimeout(timer);
    timer = setTimeout(() => callback.apply(this, args), delay);
  };
}

const search = debounce((text) => console.log("searching for", text), 300);)code",
    R"code(```typescript
interface Item {
  name: string;
  price: number;
  amount: number;
}

function total(items: Item[], discount = 0): number {
  let sum = 0;
  for (let i = 0; i <= items.length; i++) {
    sum += items[i].price * items[i].amount;
  }
  return Math.round(sum * (1 - discount) * 100) / 100;
}
```)code",
    R"code(```cpp
#include <string>
#include <vector>

int find(const std::vector<std::string>& sorted, const std::string& key) {
  int low = 0, high = static_cast<int>(sorted.size()) - 1;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (sorted[middle] == key) return middle;
    if (sorted[middle] < key) {
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return -1;
}
```)code",
    R"code(```c
#include <stdlib.h>
#include <string.h>

char *join(const char *first, const char *second) {
    char *result = malloc(strlen(first) + strlen(second));
    if (result == NULL) return NULL;
    strcpy(result, first);
    strcat(result, second);
    return result;
}
```)code",
    R"code(public static List<Integer> primesUpTo(int limit) {
    List<Integer> primes = new ArrayList<>();
    for (int candidate = 2; candidate <= limit; candidate++) {
        boolean prime = true;
        for (int divisor = 2; divisor < candidate; divisor++) {
            if (candidate % divisor == 0) {
                prime = false;
            }
        }
        if (prime) {
            primes.add(candidate);
        }
    }
    return primes;
})code",
    R"code(```rust
use std::collections::HashMap;

fn longest_run(text: &str) -> Option<(char, usize)> {
    let mut best: HashMap<char, usize> = HashMap::new();
    let mut previous = None;
    let mut run = 0;
    for c in text.chars() {
        run = if previous == Some(c) { run + 1 } else { 1 };
        let entry = best.entry(c).or_insert(0);
        *entry = run.max(*entry);
        previous = Some(c);
    }
    best.into_iter().max_by_key(|&(_, length)| length)
}
```)code",
    R"code(```csharp
public decimal Withdraw(decimal amount)
{
    if (amount > balance)
    {
        Console.WriteLine("Not enough money.");
    }
    balance -= amount;
    history.Add($"withdrew {amount}, left {balance}");
    return balance;
}
```)code"};

}  // namespace

const SeedTexts kSeedSnippets = kSnippets;

}  // namespace specbound
