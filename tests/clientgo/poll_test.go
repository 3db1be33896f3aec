package clientgo

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"
)

// eventually asks until done tells nil; its last error is the failure.
func eventually(ctx context.Context, t *testing.T, what string, done func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		// The error of a request that the deadline cut off would hide why the wait was in vain.
		if err := done(ctx); err == nil || ctx.Err() == nil {
			last = err
		}
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v (last: %v)", what, err, last)
	}
}
