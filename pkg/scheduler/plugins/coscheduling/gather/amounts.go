// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"math/big"
	"slices"
)

// amounts are how many members may be added to a domain: the multiples of step up to most; or, where members that are there already make
// it another set, those whose bits are set in irregular, up to the number of members to be divided.
type amounts struct {
	step, most int
	irregular  *big.Int
}

func upTo(n int) amounts { return amounts{step: 1, most: max(n, 0)} }

// has is true if so many may be added.
func (a amounts) has(n int) bool {
	if a.irregular != nil {
		return a.irregular.Bit(n) == 1
	}
	return n <= a.most && n%a.step == 0
}

// rank puts sets that are not regular first: the rest is for those that are.
func (a amounts) rank() int {
	if a.irregular != nil {
		return 0
	}
	return 1
}

// below is the largest amount up to n.
func (a amounts) below(n int) int {
	if a.irregular == nil {
		return min(n, a.most) / a.step * a.step
	}
	for n = min(n, a.irregular.BitLen()-1); n > 0 && !a.has(n); n-- {
	}
	return max(n, 0)
}

// multiples are the amounts that make a multiple of k with the members that are there. Nothing may be added to whatever is there.
func (a amounts) multiples(k, members, limit int) amounts {
	switch {
	case k <= 1:
		return a
	case a.irregular == nil && members%k == 0:
		step := leastCommonMultiple(a.step, k, limit+1)
		return amounts{step: step, most: a.most / step * step}
	}
	set := big.NewInt(1)
	most := a.below(limit)
	for n := (k - members%k) % k; n <= most; n += k {
		if a.has(n) {
			set.SetBit(set, n, 1)
		}
	}
	return amounts{irregular: set}
}

// plus are the sums of an amount of the one and one of the other, up to limit: one set, moved by each amount of the other.
func (a amounts) plus(b amounts, limit int) amounts {
	if a.irregular == nil && b.irregular == nil && a.step == b.step {
		return amounts{step: a.step, most: a.most + b.most}
	}
	few, many := a.bits(limit), b.bits(limit)
	if few.BitLen() > many.BitLen() {
		few, many = many, few
	}
	sums, moved := new(big.Int), new(big.Int)
	for n := range few.BitLen() {
		if few.Bit(n) == 1 {
			sums.Or(sums, moved.Lsh(many, uint(n)))
		}
	}
	return amounts{irregular: sums.And(sums, firstBits(limit+1))}
}

// bits are the amounts up to limit.
func (a amounts) bits(limit int) *big.Int {
	if a.irregular != nil {
		return a.irregular
	}
	set := new(big.Int)
	for n := a.below(limit); n >= 0; n -= a.step {
		set.SetBit(set, n, 1)
	}
	return set
}

func firstBits(n int) *big.Int {
	bits := big.NewInt(1)
	bits.Lsh(bits, uint(n))
	return bits.Sub(bits, big.NewInt(1))
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
