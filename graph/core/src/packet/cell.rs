//! The memory of one value, and who holds it.
//!
//! A cell is held by one [`Unique`] or [`Idle`], or by any number of [`Shared`], which count
//! themselves. Whoever finds itself alone owns it, so that a value can be changed in place and its
//! memory used again; nothing is asked of the allocator, and nothing is counted while there is one
//! holder.
#![expect(unsafe_code, reason = "holders of one allocation, whose type is known at run time")]

use std::{
    any::TypeId,
    mem,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::{Weak, atomic::Ordering},
};

use super::Cells;
use crate::{
    AnyPayload, Payload,
    threading::{AtomicUsize, step},
};

/// What is known of a cell whatever the type of its value.
struct Head {
    /// How many hold it: one where it is a [`Unique`] or an [`Idle`].
    holders: AtomicUsize,
    /// Of the value.
    type_id: TypeId,
    methods: &'static Methods,
    /// The pool that it returns to.
    home: Weak<Cells>,
}

/// What depends on the type of the value.
struct Methods {
    /// Frees the cell.
    ///
    /// # Safety
    /// It is one of that type, and nobody else holds it.
    free: unsafe fn(NonNull<Head>),
    /// The value in the cell.
    ///
    /// # Safety
    /// It is one of that type, and nobody changes it meanwhile.
    payload: unsafe fn(NonNull<Head>) -> NonNull<dyn AnyPayload>,
}

/// A cell. The head comes first, so that a pointer to it is one to the cell.
#[repr(C)]
struct Cell<T> {
    head: Head,
    value: T,
}

impl<T: Payload> Cell<T> {
    const METHODS: &'static Methods = &Methods {
        // SAFETY: the cell was made by `Box`, of this type, and the caller is its only holder.
        free: |head| drop(unsafe { Box::from_raw(head.cast::<Self>().as_ptr()) }),
        // SAFETY: the cell is of this type, and lives while the caller holds it.
        payload: |head| NonNull::from(unsafe { &head.cast::<Self>().as_ref().value }),
    };
}

/// The only holder of a cell whose type is known.
pub(super) struct Unique<T: Payload>(NonNull<Cell<T>>);

/// One of the holders of a cell.
pub(super) struct Shared(NonNull<Head>);

/// The only holder of a cell whose type is not known.
pub(super) struct Idle(NonNull<Head>);

// SAFETY: the value is `Send` and `Sync`, as is the head; holders count themselves atomically.
unsafe impl<T: Payload> Send for Unique<T> {}
// SAFETY: as above.
unsafe impl<T: Payload> Sync for Unique<T> {}
// SAFETY: as above; values are `Payload`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Idle {}
// SAFETY: as above.
unsafe impl Sync for Idle {}

impl<T: Payload> Unique<T> {
    pub(super) fn new(value: T, home: Weak<Cells>) -> Self {
        let (holders, type_id) = (AtomicUsize::new(1), TypeId::of::<T>());
        let head = Head { holders, type_id, methods: Cell::<T>::METHODS, home };
        Self(NonNull::from(Box::leak(Box::new(Cell { head, value }))))
    }

    /// The same, to be shared.
    #[inline]
    pub(super) fn share(self) -> Shared {
        Shared(self.into_idle().into_head())
    }

    /// The same, whatever its type.
    #[inline]
    pub(super) fn into_idle(self) -> Idle {
        let head = self.0.cast();
        mem::forget(self);
        Idle(head)
    }
}

impl<T: Payload> Deref for Unique<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the cell lives while it is held, and changes only through this holder.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T: Payload> DerefMut for Unique<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; it is the only holder, and borrowed for it.
        unsafe { &mut self.0.as_mut().value }
    }
}

impl<T: Payload> Drop for Unique<T> {
    fn drop(&mut self) {
        drop(Idle(self.0.cast()));
    }
}

impl Shared {
    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: the cell lives while it is held, and its head is not changed but by atomics.
        unsafe { self.0.as_ref() }
    }

    /// The value, when it is a `T`.
    #[inline]
    pub(super) fn get<T: Payload>(&self) -> Option<&T> {
        // SAFETY: the type was asked for, and nobody changes a value that is shared.
        (self.head().type_id == TypeId::of::<T>())
            .then(|| unsafe { &self.0.cast::<Cell<T>>().as_ref().value })
    }

    pub(super) fn payload(&self) -> &dyn AnyPayload {
        // SAFETY: the methods are those of the cell, and nobody changes a value that is shared.
        let payload = unsafe { (self.head().methods.payload)(self.0) };
        // SAFETY: the cell lives while it is held.
        unsafe { payload.as_ref() }
    }

    /// Whether nobody else holds it, and what others did to it is seen here.
    #[inline]
    fn is_alone(&self) -> bool {
        self.head().holders.load(Ordering::Acquire) == 1
    }

    /// The only holder, when the value is a `T` and nobody else holds it.
    ///
    /// # Errors
    /// Gives the holder back.
    #[inline]
    pub(super) fn into_unique<T: Payload>(self) -> Result<Unique<T>, Self> {
        if self.head().type_id != TypeId::of::<T>() || !self.is_alone() {
            return Err(self);
        }
        let head = self.0;
        mem::forget(self);
        Ok(Unique(head.cast()))
    }

    /// Lets go of it; gives it to the last holder.
    #[inline]
    pub(super) fn release(self) -> Option<Idle> {
        // Only a holder makes others, so that who is alone stays alone.
        let is_last = self.is_alone() || self.leave();
        let head = self.0;
        mem::forget(self);
        is_last.then(|| Idle(head))
    }

    /// Counts one holder less; whether it was the last one, and is now the only one.
    #[cold]
    fn leave(&self) -> bool {
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

    /// The pool that it returns to.
    pub(super) fn home(&self) -> &Weak<Cells> {
        // SAFETY: the cell lives while it is held.
        unsafe { &self.0.as_ref().home }
    }

    /// The same, when its value is a `T`.
    pub(super) fn into_unique<T: Payload>(self) -> Option<Unique<T>> {
        // SAFETY: the cell lives while it is held.
        let is_of_type = unsafe { self.0.as_ref() }.type_id == TypeId::of::<T>();
        is_of_type.then(|| Unique(self.into_head().cast()))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // SAFETY: the cell lives while it is held.
        let methods = unsafe { self.0.as_ref() }.methods;
        // SAFETY: the methods are those of the cell, and this is its only holder.
        unsafe { (methods.free)(self.0) };
    }
}
