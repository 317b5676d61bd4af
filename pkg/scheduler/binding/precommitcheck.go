// SPDX-License-Identifier: Apache-2.0

package binding

// checkBeforeCommit calls the PreCommitChecks of members that are about to be bound. It fails each member that a check
// refuses. A member may have passed its steps minutes before the barrier, because the barrier waits for the gang's last
// member.
func (r *run) checkBeforeCommit(members []*member) {
	for _, m := range members {
		for i := range m.Steps {
			s := &m.Steps[i]
			if s.PreCommitCheck == nil {
				continue
			}
			if err := protect(s, m, func() error { return s.PreCommitCheck(m.Task, m.Node) }); err != nil {
				r.roster.fail(m, s.failure(m.Member, err))
				break
			}
		}
	}
}
