// SPDX-License-Identifier: Apache-2.0

package topologyplan

import (
	"math/big"
	"slices"
)

// counts is a set of numbers: how many members may be added to a domain. If irregular is nil, the set is regular: it
// has the multiples of step up to most. Otherwise the set has n if bit n of irregular is 1. A set is irregular, for
// example, if the gang requires multiples of 4 and the domain already has 3 members.
type counts struct {
	step, most int
	irregular  *big.Int
}

func upTo(n int) counts { return counts{step: 1, most: max(n, 0)} }

// has reports whether the set has n, so that n members may be added to the domain.
func (a counts) has(n int) bool {
	if a.irregular != nil {
		return a.irregular.Bit(n) == 1
	}
	return n <= a.most && n%a.step == 0
}

// rank is a sort key: domains whose sets are irregular (not just the multiples of a number) come first. The other
// domains then take the remaining members.
func (a counts) rank() int {
	if a.irregular != nil {
		return 0
	}
	return 1
}

// below returns the largest number in the set that is at most n.
func (a counts) below(n int) int {
	if a.irregular == nil {
		return min(n, a.most) / a.step * a.step
	}
	for n = min(n, a.irregular.BitLen()-1); n > 0 && !a.has(n); n-- {
	}
	return max(n, 0)
}

// multiples returns the numbers in the set that, added to the number of members already in the domain, make a multiple
// of k. The result also has zero.
func (a counts) multiples(k, members, limit int) counts {
	switch {
	case k <= 1:
		return a
	case a.irregular == nil && members%k == 0:
		step := leastCommonMultiple(a.step, k, limit+1)
		return counts{step: step, most: a.most / step * step}
	}
	set := big.NewInt(1)
	most := a.below(limit)
	for n := (k - members%k) % k; n <= most; n += k {
		if a.has(n) {
			set.SetBit(set, n, 1)
		}
	}
	return counts{irregular: set}
}

// plus returns the set of all sums of a number in a and a number in b. It may leave out sums above limit. It shifts the
// bits of one set by each number in the other set, unless both sets are regular with the same step.
func (a counts) plus(b counts, limit int) counts {
	if a.irregular == nil && b.irregular == nil && a.step == b.step {
		return counts{step: a.step, most: a.most + b.most}
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
	return counts{irregular: sums.And(sums, firstBits(limit+1))}
}

// bits returns the set as bits: bit n is 1 if the set has n. If the set is regular, the bits end at limit.
func (a counts) bits(limit int) *big.Int {
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

// sumOf returns the set of the numbers of members that the domains can take together.
func (t *DomainTree) sumOf(domains []*domain) counts {
	if len(domains) == 0 {
		return upTo(0)
	}
	sum := domains[len(domains)-1].takes
	for _, d := range slices.Backward(domains[:len(domains)-1]) {
		sum = d.takes.plus(sum, t.most)
	}
	return sum
}

// leastCommonMultiple returns the least common multiple of a and b, or limit if that is smaller. No caller needs
// larger numbers.
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
