(** * The uniform score, by its cells

    A grid 0 = mark 0 <= mark 1 <= .. <= mark cells = 1. A uniform score on (l, h], with l and h among the marks, lies
    in a cell with probability width of the cell / (h - l) if the cell is inside, else 0. What else a score is, its
    place within its cell, is uniform there whatever the interval, and says nothing about it. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means.
Import ListNotations.
Open Scope R_scope.

Definition is_grid (cells : nat) (mark : nat -> R) : Prop :=
  mark 0%nat = 0 /\ mark cells = 1 /\ forall j, mark j <= mark (S j).

Definition is_mark (cells : nat) (mark : nat -> R) (x : R) : Prop := exists i, (i <= cells)%nat /\ mark i = x.

Section Score.
  Variables (cells : nat) (mark : nat -> R).
  Hypothesis grid : is_grid cells mark.

  Lemma mark_monotone i j : (i <= j)%nat -> mark i <= mark j.
  Proof.
    destruct grid as (_ & _ & Hstep). intros H. induction H as [| j H IH]; [lra |]. specialize (Hstep j). lra.
  Qed.

  Lemma mark_bounds x : is_mark cells mark x -> 0 <= x <= 1.
  Proof.
    destruct grid as (H0 & H1 & _). intros (i & Hi & <-).
    rewrite <- H0, <- H1. split; apply mark_monotone; lia.
  Qed.

  (** The integral of a function of the cell over (l, h]. *)
  Definition part (l h : R) (a : nat -> R) : R := sum (seq 0 cells) (fun j => width_within mark l h j * a j).

  Lemma width_within_spec l h j :
    l <= mark j /\ mark (S j) <= h /\ width_within mark l h j = mark (S j) - mark j
    \/ (mark j < l \/ h < mark (S j)) /\ width_within mark l h j = 0.
  Proof.
    unfold width_within. destruct (leb l (mark j)) eqn:E1, (leb (mark (S j)) h) eqn:E2; cbn [andb]; reals;
      (apply leb_true in E1 || apply leb_false in E1); (apply leb_true in E2 || apply leb_false in E2); auto 6.
  Qed.

  (** A mark lies beside a cell, not in it. *)
  Lemma beside x j : is_mark cells mark x -> x <= mark j \/ mark (S j) <= x.
  Proof.
    intros (i & _ & <-). destruct (Nat.le_gt_cases i j) as [H | H]; [left | right]; apply mark_monotone; lia.
  Qed.

  Lemma part_additive l m h a : is_mark cells mark m -> l <= m <= h -> part l m a + part m h a = part l h a.
  Proof.
    intros Hm Hlh. unfold part. rewrite <- sum_plus. apply sum_ext. intros j _.
    rewrite <- Rmult_plus_distr_r. f_equal.
    pose proof (mark_monotone j (S j) (Nat.le_succ_diag_r j)) as Hstep.
    destruct (beside m j Hm);
      destruct (width_within_spec l m j) as [(? & ? & ->) | ([? | ?] & ->)];
      destruct (width_within_spec m h j) as [(? & ? & ->) | ([? | ?] & ->)];
      destruct (width_within_spec l h j) as [(? & ? & ->) | ([? | ?] & ->)]; lra.
  Qed.

  Lemma part_empty l a : is_mark cells mark l -> part l l a = 0.
  Proof. intros Hl. pose proof (part_additive l l l a Hl). lra. Qed.

  Lemma part_from_zero x : is_mark cells mark x -> part 0 x (fun _ => 1) = x.
  Proof.
    destruct grid as (H0 & _ & _). intros (i & Hi & <-). unfold part.
    (* the cells below mark i count in full, the others not at all *)
    replace cells with (i + (cells - i))%nat by lia. rewrite seq_app, sum_app. simpl.
    assert (Hbelow : forall k, (k <= i)%nat -> sum (seq 0 k) (fun j => width_within mark 0 (mark i) j * 1) = mark k).
    { induction k as [| k IH]; intros Hk; [rewrite H0; reflexivity |].
      rewrite seq_S, sum_app, IH, sum_cons, sum_nil by lia. simpl.
      pose proof (mark_monotone 0 k ltac:(lia)). pose proof (mark_monotone (S k) i ltac:(lia)).
      destruct (width_within_spec 0 (mark i) k) as [(? & ? & ->) | ([? | ?] & ->)]; lra. }
    rewrite Hbelow by lia. rewrite (sum_ext _ _ (fun _ => 0)), sum_zero; [ring |].
    intros j Hj. apply in_seq in Hj.
    pose proof (mark_monotone i j ltac:(lia)). pose proof (mark_monotone j (S j) ltac:(lia)).
    destruct (width_within_spec 0 (mark i) j) as [(? & ? & ->) | ([? | ?] & ->)]; lra.
  Qed.

  Lemma zero_is_mark : is_mark cells mark 0.
  Proof. exists 0%nat. split; [lia | apply grid]. Qed.

  Lemma one_is_mark : is_mark cells mark 1.
  Proof. exists cells. split; [lia | apply grid]. Qed.

  Lemma part_width l h : is_mark cells mark l -> is_mark cells mark h -> l <= h -> part l h (fun _ => 1) = h - l.
  Proof.
    intros Hl Hh Hlh. pose proof (mark_bounds l Hl) as Hbounds.
    pose proof (part_additive 0 l h (fun _ => 1) Hl) as Hadd. rewrite !part_from_zero in Hadd by assumption. lra.
  Qed.

  (** The mean over the score, times the width of its interval, is the integral. *)
  Lemma mean_uniform_score l h a : is_mark cells mark l -> is_mark cells mark h -> l <= h ->
    (h - l) * mean (uniform_score cells mark l h) a = part l h a.
  Proof.
    intros Hl Hh Hlh. pose proof (part_width l h Hl Hh Hlh) as Hw.
    destruct (Req_dec l h) as [<- | Hne]; [rewrite part_empty by exact Hl; ring |].
    assert (E : sum (seq 0 cells) (width_within mark l h) = h - l).
    { rewrite <- Hw. apply sum_ext. intros. ring. }
    unfold uniform_score. rewrite <- E. rewrite categorical_total by lra. reflexivity.
  Qed.

  (** Below a mark [m], cells count as they do below 1. *)
  Definition below (m : R) (j : nat) : R := if leb (mark (S j)) m then 1 else 0.

  Lemma part_below l m h a : l <= m <= h -> part l h (fun j => a j * below m j) = part l m a.
  Proof.
    intros Hm. unfold part. apply sum_ext. intros j _. unfold below.
    destruct (leb (mark (S j)) m) eqn:E;
      (apply leb_true in E || apply leb_false in E);
      destruct (width_within_spec l m j) as [(? & ? & ->) | ([? | ?] & ->)];
      destruct (width_within_spec l h j) as [(? & ? & ->) | ([? | ?] & ->)]; lra.
  Qed.

  (** ** The theorems: cell probabilities, and with them the distribution function at every mark *)

  Theorem uniform_score_cells l h j : is_mark cells mark l -> is_mark cells mark h -> l < h -> (j < cells)%nat ->
    probability (uniform_score cells mark l h) (Nat.eqb j)
    = if leb l (mark j) && leb (mark (S j)) h then (mark (S j) - mark j) / (h - l) else 0.
  Proof.
    intros Hl Hh Hlh Hj. unfold probability.
    apply (Rmult_eq_reg_l (h - l)); [| lra]. rewrite mean_uniform_score by (auto; lra).
    unfold part. rewrite (sum_single _ _ j); [| apply seq_NoDup | apply in_seq; lia |].
    - rewrite Nat.eqb_refl. unfold width_within. destruct (_ && _); reals; field; lra.
    - intros i _ Hi. apply not_eq_sym, Nat.eqb_neq in Hi. rewrite Hi. reals. ring.
  Qed.

  Theorem uniform_score_distribution l m h : is_mark cells mark l -> is_mark cells mark m -> is_mark cells mark h ->
    l < h -> l <= m <= h ->
    probability (uniform_score cells mark l h) (fun j => leb (mark (S j)) m) = (m - l) / (h - l).
  Proof.
    intros Hl Hm Hh Hlh Hlmh. unfold probability.
    apply (Rmult_eq_reg_l (h - l)); [| lra]. rewrite mean_uniform_score by (auto; lra).
    replace ((h - l) * ((m - l) / (h - l))) with (m - l) by (field; lra).
    rewrite <- (part_width l m) by (auto; lra). rewrite <- (part_below l m h (fun _ => 1)) by lra.
    unfold part. apply sum_ext. intros j _. unfold below. destruct (leb _ _); reals; ring.
  Qed.
End Score.

(** ** There is a grid for any finite list of numbers in [0, 1] *)

Lemma insert_mark cells mark x : is_grid cells mark -> 0 <= x <= 1 ->
  exists mark', is_grid (S cells) mark' /\ is_mark (S cells) mark' x
    /\ forall y, is_mark cells mark y -> is_mark (S cells) mark' y.
Proof.
  intros grid Hx. destruct grid as (H0 & H1 & Hstep) eqn:Egrid. clear Egrid.
  assert (Hi : exists i, (i <= cells)%nat /\ mark i <= x /\ (forall k, (i < k <= cells)%nat -> x <= mark k)).
  { clear - H0 Hx. induction cells as [| n (i & Hin & Hle & Hge)].
    - exists 0%nat. repeat split; [lia | lra | intros; lia].
    - destruct (Rle_lt_dec (mark (S n)) x).
      + exists (S n). repeat split; [lia | lra | intros; lia].
      + exists i. repeat split; [lia | lra |]. intros k Hk.
        destruct (Nat.eq_dec k (S n)) as [-> |]; [lra | apply Hge; lia]. }
  destruct Hi as (i & Hin & Hle & Hge).
  exists (fun k => if k <=? i then mark k else if k =? S i then x else mark (pred k)).
  assert (old : forall k, (k <= cells)%nat -> exists k', (k' <= S cells)%nat
    /\ (if k' <=? i then mark k' else if k' =? S i then x else mark (pred k')) = mark k).
  { intros k Hk. destruct (Nat.le_gt_cases k i).
    - exists k. split; [lia |]. now rewrite (proj2 (Nat.leb_le k i)).
    - exists (S k). split; [lia |]. rewrite (proj2 (Nat.leb_gt (S k) i)), (proj2 (Nat.eqb_neq (S k) (S i))) by lia.
      reflexivity. }
  split; [split; [| split] | split].
  - exact H0.
  - rewrite (proj2 (Nat.leb_gt (S cells) i)) by lia.
    destruct (Nat.eqb_spec (S cells) (S i)) as [E | E]; [| exact H1].
    (* x is put last: it is 1 *)
    inversion E; subst. lra.
  - intros k. destruct (Nat.leb_spec k i), (Nat.leb_spec (S k) i), (Nat.eqb_spec k (S i)), (Nat.eqb_spec (S k) (S i));
      try lia; simpl; try apply Hstep.
    + replace k with i by lia. exact Hle.
    + destruct (Nat.le_gt_cases k cells).
      * apply Hge. lia.
      * subst k. replace (S i) with (S cells) by lia. specialize (Hstep cells). lra.
    + destruct k as [| k]; [lia |]. apply Hstep.
  - exists (S i). split; [lia |]. rewrite (proj2 (Nat.leb_gt (S i) i)), Nat.eqb_refl by lia. reflexivity.
  - intros y (k & Hk & <-). destruct (old k Hk) as (k' & ? & ?). now exists k'.
Qed.

Theorem grid_exists (numbers : list R) : (forall x, In x numbers -> 0 <= x <= 1) ->
  exists cells mark, is_grid cells mark /\ forall x, In x numbers -> is_mark cells mark x.
Proof.
  induction numbers as [| x numbers IH]; intros H.
  - exists 1%nat, (fun j => match j with 0%nat => 0 | _ => 1 end). split; [| easy].
    repeat split. intros [| j]; lra.
  - destruct IH as (cells & mark & grid & Hall); [intros; apply H; now right |].
    destruct (insert_mark cells mark x grid (H x (or_introl eq_refl))) as (mark' & grid' & Hx & Hold).
    exists (S cells), mark'. split; [exact grid' |]. intros y [<- | Hy]; auto.
Qed.
