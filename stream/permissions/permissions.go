// Package permissions checks that a daemon's NATS users have the permissions that the daemon needs.
package permissions

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nuid"

	"loaderd/internal/auth"
	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/checkpoints"
	"loaderd/stream/conn"
	"loaderd/stream/daemonbus"
	"loaderd/stream/lease"
	"loaderd/stream/pullrecord"
	"loaderd/stream/retention"
)

// MissingError lists the permissions that the daemon's NATS user needs and lacks.
type MissingError struct {
	Missing []Permission
}

// Permission is one that a daemon needs.
type Permission struct {
	Subject   string
	Subscribe bool // otherwise to publish
	Purpose   string

	absentStream string // needed only if no stream of this name exists
}

func (e *MissingError) Error() string {
	var b strings.Builder
	b.WriteString("the daemon's user of NATS may not do what a daemon does (docs/how-to/cluster.md#permissions has " +
		"templates); it lacks permission to")
	for _, p := range e.Missing {
		what := "publish"
		if p.Subscribe {
			what = "subscribe"
		}
		fmt.Fprintf(&b, "\n  %s to %s, %s", what, p.Subject, p.Purpose)
	}
	return b.String()
}

// Tasks are the tasks that only some daemons have.
type Tasks struct {
	Purges bool
	Pulls  []Pull
}

// Pull is a document stream that a daemon imports documents into.
type Pull struct {
	Documents *stream.Store
	Subject   string // of its documents
	Seals     bool   // after the last document
}

// Check returns a *MissingError if the store's users lack permissions that a daemon of a run needs, as far as
// harmless requests can show it. A request that is not permitted gets no response. Without this check a daemon would
// wait, and report only the first missing permission. Check logs a warning if other users have the same permissions
// as the daemon, or if permissions cannot be read, which is not an error.
func Check(ctx context.Context, s *stream.Store, run string, t Tasks) error {
	needs, own := documentPermissions(s, t.Purges), runPermissions(s.Own(), run)
	for _, p := range t.Pulls {
		needs, own = append(needs, pullPermissions(p)...), append(own, pullRecordPermissions(p)...)
	}
	if s.Own() == s {
		needs, own = append(needs, own...), nil
	}
	missing := findMissing(ctx, s, needs)
	if own != nil {
		missing = append(missing, findMissing(ctx, s.Own(), own)...)
	}
	if len(missing) == 0 {
		return nil
	}
	return &MissingError{missing}
}

// findMissing returns the permissions in needs that a store's user does not have.
func findMissing(ctx context.Context, s *stream.Store, needs []Permission) (missing []Permission) {
	publish, subscribe := []string{conn.UserInfoSubject}, []string{}
	for _, p := range needs {
		if p.Subscribe {
			subscribe = append(subscribe, p.Subject)
		} else {
			publish = append(publish, p.Subject)
		}
	}
	notPublish, notSubscribe, err := s.DeniedSubjects(ctx, publish, subscribe)
	if err != nil {
		s.Log().Warn("cannot determine the permissions of the daemon's NATS user", "error", err)
		return nil
	}
	if !slices.Contains(notPublish, conn.UserInfoSubject) {
		if account, err := s.AccountName(ctx); err == nil && isSharedAccount(account, s.ClientURL()) {
			s.Log().Warn(
				"the daemon's NATS user is in the default account, which all clients share: a producer can forge the plan. "+
					"Use a separate account for daemons (docs/how-to/cluster.md#permissions has templates)", "account", account)
		}
	}
	for _, p := range needs {
		refused := notPublish
		if p.Subscribe {
			refused = notSubscribe
		}
		if !slices.Contains(refused, p.Subject) || slices.ContainsFunc(missing, func(m Permission) bool {
			return m.Subject == p.Subject && m.Subscribe == p.Subscribe
		}) {
			continue
		}
		if p.absentStream != "" && !slices.Contains(notPublish, s.API("STREAM.INFO", p.absentStream)) {
			if _, err := s.Find(ctx, "stream "+p.absentStream, p.absentStream, errNoStream); !errors.Is(err, errNoStream) {
				continue // or its existence is unknown; opening the stream returns the error
			}
		}
		missing = append(missing, p)
	}
	return missing
}

// isSharedAccount reports whether an account is the one that all users of servers without accounts share, on a server
// that other machines can reach.
func isSharedAccount(account, server string) bool {
	u, err := url.Parse(server)
	return err == nil && account == "$G" && !auth.IsLoopback(u.Host)
}

var errNoStream = errors.New("there is no such stream")

// documentPermissions lists the subjects that a daemon publishes and subscribes to on the servers of the
// documents, as it uses them.
func documentPermissions(s *stream.Store, purges bool) []Permission {
	c := s.Config()
	n := permissionList{store: s}
	n.addSubscribe("to receive replies", s.Conn().NewInbox())
	n.addStreams(c.Name, c.DeadLetterName())
	n.addPublish("to read documents", s.API("STREAM.MSG.GET", c.Name), s.API("DIRECT.GET", c.Name),
		s.API("CONSUMER.CREATE", c.Name, nuid.Next()),
		s.API("CONSUMER.MSG.NEXT", c.Name, nuid.Next()), s.API("CONSUMER.INFO", c.Name, nuid.Next()),
		s.API("CONSUMER.DELETE", c.Name, nuid.Next()))
	n.addPublish("to keep documents that cannot be decoded", c.DeadLetterSubject(c.Subject+".x"))
	n.addBucket(stream.ReadersBucket, "x")
	if purges {
		n.addPublish("to release documents (serve.retention: purge)", s.API("STREAM.PURGE", c.Name))
	}
	return n.all
}

// pullPermissions lists the additional subjects that a daemon publishes to if it imports documents into a stream.
func pullPermissions(p Pull) []Permission {
	name := p.Documents.Config().Name
	n := permissionList{store: p.Documents}
	n.addStreams(name)
	n.addPublish("to put documents into stream "+name+", which this daemon fills (pull)", p.Subject)
	n.addPublish("to see how far stream "+name+" is filled", n.store.API("STREAM.MSG.GET", name),
		n.store.API("DIRECT.GET", name))
	if p.Seals {
		n.addPublish("to seal stream "+name+" behind its last document", n.store.API("STREAM.UPDATE", name))
	}
	return n.all
}

// pullRecordPermissions lists the permissions on the servers of the daemon's own streams that importing documents in
// turn with other daemons requires.
func pullRecordPermissions(p Pull) []Permission {
	name := p.Documents.Config().Name
	n := permissionList{store: p.Documents.Own()}
	n.addBucket(pullrecord.Bucket, name)
	n.addBucket(lease.Bucket, pullrecord.LeaseName(name))
	freed := lease.ReleasedSubject(pullrecord.LeaseName(name))
	n.addPublish("to notify other daemons that they may fill stream "+name, freed)
	n.addSubscribe("to be notified that it may fill stream "+name, freed)
	return n.all
}

// runPermissions lists the subjects that a daemon of a run publishes and subscribes to on the servers of its own
// streams.
func runPermissions(s *stream.Store, run string) []Permission {
	plan, objects := s.Config().PlanStream(run), checkpoints.StreamName(run)
	n := permissionList{store: s}
	n.addStreams(plan.Name, objects)
	for _, bucket := range []string{lease.Bucket, retention.Bucket, checkpoints.Bucket} {
		n.addBucket(bucket, run)
	}
	n.addPublish("to plan", plan.Subjects[0])
	n.addPublish("to read the plan", s.API("STREAM.MSG.GET", plan.Name), s.API("DIRECT.GET", plan.Name))
	n.addPublish("to store checkpoints", "$O."+checkpoints.ObjectStoreName(run)+".C.x",
		"$O."+checkpoints.ObjectStoreName(run)+".M.x")
	n.addPublish("to remove old checkpoints", s.API("STREAM.PURGE", objects))
	alive := lease.AliveSubject(nuid.Next())
	heartbeats, status, _ := daemonbus.Subjects(run)
	n.addPublish("to talk to other daemons", alive, lease.ReleasedSubject(run))
	n.addSubscribe("to receive replies", s.Conn().NewInbox())
	n.addSubscribe("to receive heartbeats of other daemons", heartbeats)
	n.addSubscribe("to report its status to other daemons", status)
	n.addSubscribe("to answer other daemons that ask whether it runs", alive)
	return n.all
}

// permissionList collects permissions.
type permissionList struct {
	store *stream.Store
	all   []Permission
}

func (n *permissionList) addPublish(why string, subjects ...string) {
	for _, subject := range subjects {
		n.all = append(n.all, Permission{Subject: subject, Purpose: why})
	}
}

func (n *permissionList) addSubscribe(why, subject string) {
	n.all = append(n.all, Permission{Subject: subject, Subscribe: true, Purpose: why})
}

func (n *permissionList) addStreams(names ...string) {
	for _, name := range names {
		n.addPublish("to find stream "+name, n.store.API("STREAM.INFO", name))
		n.all = append(n.all, Permission{Subject: n.store.API("STREAM.CREATE", name), Purpose: "to make stream " + name +
			", which is not there", absentStream: name})
	}
}

func (n *permissionList) addBucket(name, key string) {
	behind, subject := casvalue.KeyAddress(name, key)
	n.addStreams(behind)
	n.addPublish("to read bucket "+name, n.store.API("STREAM.MSG.GET", behind), n.store.API("DIRECT.GET", behind)+
		"."+subject)
	n.addPublish("to write to bucket "+name, subject)
}
