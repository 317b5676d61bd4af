// SPDX-License-Identifier: Apache-2.0

package topologyplan

import (
	"math/big"
	"slices"
)

// counts is the set of numbers of members that may be added to a domain: the multiples of step up to most. If members
// that are already in the domain make the set irregular, irregular holds it as bits, up to the number of members to be
// divided.
type counts struct {
	step, most int
	irregular  *big.Int
}

func upTo(n int) counts { return counts{step: 1, most: max(n, 0)} }

// has reports whether n members may be added.
func (a counts) has(n int) bool {
	if a.irregular != nil {
		return a.irregular.Bit(n) == 1
	}
	return n <= a.most && n%a.step == 0
}

// rank orders irregular sets first, so that the regular ones take the rest.
func (a counts) rank() int {
	if a.irregular != nil {
		return 0
	}
	return 1
}

// below returns the largest amount up to n.
func (a counts) below(n int) int {
	if a.irregular == nil {
		return min(n, a.most) / a.step * a.step
	}
	for n = min(n, a.irregular.BitLen()-1); n > 0 && !a.has(n); n-- {
	}
	return max(n, 0)
}

// multiples returns the amounts that, together with the members already there, make a multiple of k. Zero is always one of them.
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

// plus returns all sums of an amount of a and one of b, up to limit. It shifts the bits of one set by each amount of the other.
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

// bits returns the amounts up to limit.
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

// sumOf returns the amounts that the domains can take together.
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

// leastCommonMultiple returns at most limit, since no larger amounts are used.
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
