package checkpoints_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/internal/runstatetest"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
)

// stepsOf returns the steps of checkpoints.
func stepsOf(stored []backend.CheckpointInfo) (steps []uint64) {
	for _, s := range stored {
		steps = append(steps, s.Step)
	}
	return steps
}

func TestCheckpoints_PutGetListAndClaim(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	c := runstatetest.Checkpoints(t, s.Store(), "run")
	if list, err := c.List(ctx); err != nil || len(list) != 0 {
		t.Fatalf("without any it lists %v, %v", list, err)
	}
	if _, err := c.Get(ctx, "x"); !errors.Is(err, checkpoints.ErrNotFound) {
		t.Errorf("get of nothing: %v", err)
	}
	if list, err := c.Claim(ctx, 2, true); err != nil || len(list) != 0 {
		t.Fatalf("claimed are %v, %v", list, err)
	}
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	contents := map[uint64][]byte{1: data, 2: {}, 3: []byte("three"), 4: []byte("four")}
	var stored []backend.CheckpointInfo
	for step := uint64(1); step <= 4; step++ {
		var err error
		if stored, err = c.Put(ctx, 2, step, contents[step]); err != nil {
			t.Fatal(err)
		}
	}
	s.Restart()
	c = runstatetest.Checkpoints(t, s.Store(), "run")
	list, err := c.List(ctx)
	if err != nil || !slices.Equal(list, stored) || !slices.Equal(stepsOf(list), []uint64{2, 3, 4}) {
		t.Fatalf("it lists %v, %v, want the newest three of %v", list, err, stored)
	}
	for _, x := range list {
		if got, err := c.Get(ctx, x.Name); err != nil || !bytes.Equal(got, contents[x.Step]) || x.Bytes != int64(len(got)) {
			t.Errorf("%+v: %d bytes, %v, want %d", x, len(got), err, len(contents[x.Step]))
		}
	}
	if n := len(runstatetest.Objects(t, s.Store(), "run")); n != 3 {
		t.Errorf("%d objects are left, want 3", n)
	}
	// A checkpoint of an earlier step, twice. Checkpoints of later steps are of another plan.
	for _, want := range [][]uint64{{2, 3}, {2, 3}} {
		if stored, err = c.Put(ctx, 2, 3, data); err != nil || !slices.Equal(stepsOf(stored), want) {
			t.Errorf("stored are %v, %v, want %v", stored, err, want)
		}
	}
	if got, err := c.Get(ctx, stored[1].Name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("get of what was replaced: %d bytes, %v", len(got), err)
	}
	if n := len(runstatetest.Objects(t, s.Store(), "run")); n != 2 {
		t.Errorf("%d objects are left, want 2", n)
	}
}

// An earlier leader can neither store nor delete checkpoints, and what it left is deleted.
func TestCheckpoints_FormerLeaderStoresAndDeletesNone(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	before, now := runstatetest.Checkpoints(t, s.Store(), "run"), runstatetest.Checkpoints(t, s.OpenRemote(), "run")
	for _, step := range []uint64{93, 96, 99} {
		if _, err := before.Put(ctx, 2, step, []byte("of before")); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := s.Store().Own().JetStream().ObjectStore(ctx, "CHECKPOINTS_run")
	if err != nil {
		t.Fatal(err)
	}
	// without a daemon's fence; of an earlier plan
	for _, left := range []string{"step-00000000000000000090", "step-00000000000000000097.plan-1.term-9.x"} {
		if _, err := objects.PutBytes(ctx, left, []byte("left")); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := now.Claim(ctx, 50, false)
	if err != nil || !slices.Equal(stepsOf(stored), []uint64{93, 96, 99}) {
		t.Fatalf("claimed are %v, %v", stored, err)
	}
	if _, err := before.Put(ctx, 2, 4, []byte("behind no record")); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("it stores a checkpoint: %v", err)
	}
	if _, err := before.Claim(ctx, 2, false); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("it claims: %v", err)
	}
	if stored, err = now.Put(ctx, 50, 102, []byte("of now")); err != nil {
		t.Fatal(err)
	}
	if n := len(runstatetest.Objects(t, s.Store(), "run")); n != 3 {
		t.Errorf("%d objects are left, want those that count", n)
	}
	if err := before.Sweep(ctx, 2, nil); err != nil { // the process was suspended during its own claim
		t.Fatal(err)
	}
	if list, err := now.List(ctx); err != nil || !slices.Equal(list, stored) ||
		!slices.Equal(stepsOf(list), []uint64{96, 99, 102}) {
		t.Errorf("it lists %v, %v, want %v", list, err, stored)
	}
	for _, x := range stored[2:] {
		if got, err := now.Get(ctx, x.Name); err != nil || string(got) != "of now" {
			t.Errorf("%+v: %q, %v", x, got, err)
		}
	}
}

// Checkpoints of an earlier plan of the same run are invalid, and its leader can no longer claim.
func TestCheckpoints_OfEarlierPlanAreInvalid(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	before := runstatetest.Checkpoints(t, s.Store(), "run")
	if _, err := before.Put(ctx, 70, 9, []byte("of before")); err != nil {
		t.Fatal(err)
	}
	if err := s.Store().Own().JetStream().DeleteStream(ctx, "PLAN_run"); err != nil {
		t.Fatal(err)
	}
	now := runstatetest.Checkpoints(t, s.Store(), "run")
	if list, err := now.List(ctx); err != nil || len(list) != 1 || !list[0].FromEarlierPlan {
		t.Errorf("it lists %v, %v, want one of the earlier plan", list, err)
	}
	if list, err := now.Claim(ctx, 2, true); err != nil || len(list) != 0 {
		t.Errorf("claimed are %v, %v", list, err)
	}
	if _, err := now.Put(ctx, 2, 5, nil); err != nil || len(runstatetest.Objects(t, s.Store(), "run")) != 1 {
		t.Errorf("%v, objects are %v, want that of now", err, runstatetest.Objects(t, s.Store(), "run"))
	}
	if err := s.Store().Own().JetStream().DeleteStream(ctx, "PLAN_run"); err != nil {
		t.Fatal(err)
	}
	restored := runstatetest.Checkpoints(t, s.Store(), "run")
	if list, err := restored.Claim(ctx, 2, false); err != nil || !slices.Equal(stepsOf(list), []uint64{5}) {
		t.Errorf("of a plan that was restored, claimed are %v, %v", list, err)
	}
	if list, err := restored.List(ctx); err != nil || len(list) != 1 || list[0].FromEarlierPlan {
		t.Errorf("it lists %v, %v", list, err)
	}
	if _, err := before.Put(ctx, 71, 10, []byte("of before")); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("the leader of the earlier plan stores a checkpoint: %v", err)
	}
}

// An object with a missing or different part is an error, never a shorter or wrong object.
func TestCheckpoints_DamagedObjectIsRefused(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	o := runstatetest.Checkpoints(t, s.Store(), "run")
	stored, err := o.Put(ctx, 2, 1, make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.Store().Own().JetStream().Stream(ctx, "OBJ_CHECKPOINTS_run")
	if err != nil {
		t.Fatal(err)
	}
	part, err := raw.GetMsg(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.DeleteMsg(ctx, 8); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store().Own().JetStream().PublishMsg(ctx,
		&nats.Msg{Subject: part.Subject, Data: bytes.Repeat([]byte{1}, len(part.Data))}); err != nil {
		t.Fatal(err)
	}
	if got, err := o.Get(ctx, stored[0].Name); !errors.Is(err, jetstream.ErrDigestMismatch) {
		t.Errorf("got %d bytes, error %v, want %v", len(got), err, jetstream.ErrDigestMismatch)
	}
}

// Checkpoints are larger than the messages of a server for small documents.
func TestCheckpoints_ExceedMessageLimitOfServer(t *testing.T) {
	srv := natstest.Start(t, func(c *stream.Config) { c.MaxDocument = 32 << 10 })
	o := runstatetest.Checkpoints(t, srv.Store(), "run")
	data := bytes.Repeat([]byte("checkpoint"), 20<<10)
	stored, err := o.Put(natstest.Context(t), 2, 1, data)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := o.Get(natstest.Context(t), stored[0].Name); err != nil || !bytes.Equal(have, data) {
		t.Errorf("%d bytes, %v", len(have), err)
	}
}
