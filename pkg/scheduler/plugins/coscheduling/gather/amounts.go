// SPDX-License-Identifier: Apache-2.0

package gather

import "slices"

// amounts are how many members may be added to a domain: the multiples of step up to most; or, where members that are there already make
// it another set, those that are true in list, which ends at the number of members to be divided.
type amounts struct {
	step, most int
	list       []bool
}

func upTo(n int) amounts { return amounts{step: 1, most: max(n, 0)} }

// has is true if so many may be added.
func (a amounts) has(n int) bool {
	if a.list != nil {
		return n < len(a.list) && a.list[n]
	}
	return n <= a.most && n%a.step == 0
}

// rank puts sets that are not regular first: the rest is for those that are.
func (a amounts) rank() int {
	if a.list != nil {
		return 0
	}
	return 1
}

// below is the largest amount up to n.
func (a amounts) below(n int) int {
	if a.list == nil {
		return min(n, a.most) / a.step * a.step
	}
	for n = min(n, len(a.list)-1); n > 0 && !a.list[n]; n-- {
	}
	return max(n, 0)
}

// multiples are the amounts that make a multiple of k with the members that are there. Nothing may be added to whatever is there.
func (a amounts) multiples(k, members, limit int) amounts {
	switch {
	case k <= 1:
		return a
	case a.list == nil && members%k == 0:
		step := leastCommonMultiple(a.step, k, limit+1)
		return amounts{step: step, most: a.most / step * step}
	}
	list := make([]bool, limit+1)
	for n := range list {
		list[n] = n == 0 || a.has(n) && (members+n)%k == 0
	}
	return amounts{list: list}
}

// plus are the sums of an amount of the one and one of the other, up to limit.
func (a amounts) plus(b amounts, limit int) amounts {
	if a.list == nil && b.list == nil && a.step == b.step {
		return amounts{step: a.step, most: a.most + b.most}
	}
	list := make([]bool, limit+1)
	for n := range limit + 1 {
		if !b.has(n) {
			continue
		}
		for m := 0; n+m <= limit; m++ {
			list[n+m] = list[n+m] || a.has(m)
		}
	}
	return amounts{list: list}
}

// sumOf is what the domains take together.
func (t *Tree) sumOf(domains []*domain) amounts {
	if len(domains) == 0 {
		return upTo(0)
	}
	sum := domains[len(domains)-1].takes
	for _, d := range slices.Backward(domains[:len(domains)-1]) {
		sum = d.takes.plus(sum, t.most)
	}
	return sum
}

// leastCommonMultiple is no more than limit, beyond which nothing is asked for.
func leastCommonMultiple(a, b, limit int) int {
	l, r := a, b
	for r != 0 {
		l, r = r, l%r
	}
	if a/l > limit/b {
		return max(limit, 1)
	}
	return a / l * b
}
