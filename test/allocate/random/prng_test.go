// SPDX-License-Identifier: Apache-2.0

package random

import "math/rand/v2"

// dice makes all random choices.
type dice struct{ *rand.Rand }

// newDice returns the dice of a seed. Streams of one seed are independent of each other.
func newDice(seed, stream uint64) dice { return dice{rand.New(rand.NewPCG(seed, stream))} }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

// between returns a number from lowest to highest, both included.
func (d dice) between(lowest, highest int) int { return lowest + d.IntN(highest-lowest+1) }

// pick returns one of the values.
func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }
