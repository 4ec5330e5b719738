//! Reference-counted memory of one value.
//!
//! A cell is held by one [`Unique`] or one [`Idle`], or by any number of [`Shared`] with a common
//! reference count. The last holder owns the cell: it may change the value in place and reuse the
//! memory. A single holder costs no atomic update.
#![expect(unsafe_code, reason = "reference-counted cells whose type is known at run time")]

use std::{
    any::TypeId,
    mem,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::{Weak, atomic::Ordering},
};

use super::{AnyPayload, Cells};
use crate::threading::{AtomicUsize, step};

/// Type-erased part of a cell.
struct Head {
    /// Reference count; one for a [`Unique`] or an [`Idle`].
    holders: AtomicUsize,
    /// Type of the value.
    type_id: TypeId,
    methods: &'static Methods,
    /// Pool that the cell returns to.
    pool: Weak<Cells>,
}

/// Functions that depend on the type of the value.
struct Methods {
    /// Frees the cell.
    ///
    /// # Safety
    /// The cell has that type, and the caller is its only holder.
    free: unsafe fn(NonNull<Head>),
    /// Calls [`AnyPayload::release_foreign`].
    ///
    /// # Safety
    /// As of `free`.
    release_foreign: unsafe fn(NonNull<Head>),
    /// Returns the value in the cell.
    ///
    /// # Safety
    /// The cell has that type, and no holder changes it during the call.
    payload: unsafe fn(NonNull<Head>) -> NonNull<dyn AnyPayload>,
}

/// A cell. The head is the first field, so a pointer to the head is a pointer to the cell.
#[repr(C)]
struct Cell<T> {
    head: Head,
    value: T,
}

impl<T: AnyPayload> Cell<T> {
    const METHODS: &'static Methods = &Methods {
        // SAFETY: the cell was allocated by `Box` with this type, and the caller is its only holder.
        free: |head| drop(unsafe { Box::from_raw(head.cast::<Self>().as_ptr()) }),
        // SAFETY: the cell has this type, and the caller is its only holder.
        release_foreign: |head| unsafe { head.cast::<Self>().as_mut() }.value.release_foreign(),
        // SAFETY: the cell has this type and lives while the caller holds it.
        payload: |head| NonNull::from(unsafe { &head.cast::<Self>().as_ref().value }),
    };
}

/// Only holder of a cell of a known type.
pub(super) struct Unique<T: AnyPayload>(NonNull<Cell<T>>);

/// One of several holders of a cell.
pub(super) struct Shared(NonNull<Head>);

/// Only holder of a cell of an unknown type.
pub(super) struct Idle(NonNull<Head>);

// SAFETY: value and head are `Send` and `Sync`; the reference count is atomic.
unsafe impl<T: AnyPayload> Send for Unique<T> {}
// SAFETY: as above.
unsafe impl<T: AnyPayload> Sync for Unique<T> {}
// SAFETY: as above; values are `AnyPayload`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Idle {}
// SAFETY: as above.
unsafe impl Sync for Idle {}

impl<T: AnyPayload> Unique<T> {
    pub(super) fn new(value: T, pool: Weak<Cells>) -> Self {
        let (holders, type_id) = (AtomicUsize::new(1), TypeId::of::<T>());
        let head = Head { holders, type_id, methods: Cell::<T>::METHODS, pool };
        Self(NonNull::from(Box::leak(Box::new(Cell { head, value }))))
    }

    /// Converts to a shared holder.
    #[inline]
    pub(super) fn share(self) -> Shared {
        Shared(self.into_idle().into_head())
    }

    /// Erases the type.
    #[inline]
    pub(super) fn into_idle(self) -> Idle {
        let head = self.0.cast();
        mem::forget(self);
        Idle(head)
    }
}

impl<T: AnyPayload> Deref for Unique<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the cell lives while it is held and changes only through this holder.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T: AnyPayload> DerefMut for Unique<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; this is the only holder, and it is borrowed mutably.
        unsafe { &mut self.0.as_mut().value }
    }
}

impl<T: AnyPayload> Drop for Unique<T> {
    fn drop(&mut self) {
        drop(Idle(self.0.cast()));
    }
}

impl Shared {
    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: the cell lives while it is held; its head changes only through atomics.
        unsafe { self.0.as_ref() }
    }

    /// The value, if it is a `T`.
    #[inline]
    pub(super) fn get<T: AnyPayload>(&self) -> Option<&T> {
        // SAFETY: the type was compared, and a shared value is not changed.
        (self.head().type_id == TypeId::of::<T>())
            .then(|| unsafe { &self.0.cast::<Cell<T>>().as_ref().value })
    }

    pub(super) fn payload(&self) -> &dyn AnyPayload {
        // SAFETY: the methods belong to the type of the cell, and a shared value is not changed.
        let payload = unsafe { (self.head().methods.payload)(self.0) };
        // SAFETY: the cell lives while it is held.
        unsafe { payload.as_ref() }
    }

    /// True for the last holder. Acquires the writes of earlier holders.
    #[inline]
    fn is_alone(&self) -> bool {
        self.head().holders.load(Ordering::Acquire) == 1
    }

    /// Converts the last holder of a `T`.
    ///
    /// # Errors
    /// Returns `self` if the type differs or there are other holders.
    #[inline]
    pub(super) fn into_unique<T: AnyPayload>(self) -> Result<Unique<T>, Self> {
        if self.head().type_id != TypeId::of::<T>() || !self.is_alone() {
            return Err(self);
        }
        let head = self.0;
        mem::forget(self);
        Ok(Unique(head.cast()))
    }

    /// Releases this holder; returns the cell if it was the last one.
    #[inline]
    pub(super) fn release(self) -> Option<Idle> {
        // Only a holder can be cloned, so a single holder stays single.
        let is_last = self.is_alone() || self.decrement();
        let head = self.0;
        mem::forget(self);
        is_last.then(|| Idle(head))
    }

    /// Decrements the reference count. Returns true for the last holder, which then owns the cell.
    #[cold]
    fn decrement(&self) -> bool {
        step();
        let holders = &self.head().holders;
        let is_last = holders.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            holders.store(1, Ordering::Relaxed);
        }
        is_last
    }
}

impl Clone for Shared {
    #[inline]
    fn clone(&self) -> Self {
        self.head().holders.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(Self(self.0).release());
    }
}

impl Idle {
    #[inline]
    fn into_head(self) -> NonNull<Head> {
        let head = self.0;
        mem::forget(self);
        head
    }

    /// Calls [`AnyPayload::release_foreign`].
    #[inline]
    pub(super) fn release_foreign(&mut self) {
        // SAFETY: the cell lives while it is held.
        let methods = unsafe { self.0.as_ref() }.methods;
        // SAFETY: the methods belong to the type of the cell, and this is its only holder.
        unsafe { (methods.release_foreign)(self.0) };
    }

    /// Pool that the cell returns to.
    pub(super) fn pool(&self) -> &Weak<Cells> {
        // SAFETY: the cell lives while it is held.
        unsafe { &self.0.as_ref().pool }
    }

    /// Restores the type, if the value is a `T`.
    pub(super) fn into_unique<T: AnyPayload>(self) -> Option<Unique<T>> {
        // SAFETY: the cell lives while it is held.
        let is_of_type = unsafe { self.0.as_ref() }.type_id == TypeId::of::<T>();
        is_of_type.then(|| Unique(self.into_head().cast()))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // SAFETY: the cell lives while it is held.
        let methods = unsafe { self.0.as_ref() }.methods;
        // SAFETY: the methods belong to the type of the cell, and this is its only holder.
        unsafe { (methods.free)(self.0) };
    }
}
