// SPDX-License-Identifier: Apache-2.0

package binding

// lookAgain asks the steps that look once more about members that are about to be bound, and fails those that are refused. A member
// may have passed minutes ago: the last of its gang decides when the barrier comes.
func (r *run) lookAgain(members []*member) {
	for _, m := range members {
		for i := range m.Steps {
			s := &m.Steps[i]
			if s.LastLook == nil {
				continue
			}
			if err := protect(s, m, func() error { return s.LastLook(m.Task, m.Node) }); err != nil {
				r.roster.fail(m, s.failure(m.Member, err))
				break
			}
		}
	}
}
